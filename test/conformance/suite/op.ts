/** The requests of a case, as records; a scene assigns ids, addresses and keys. */
import * as V from '../../../src/verbs/index.ts';

export type Kind =
  | 'write'
  | 'writeImm'
  | 'read'
  | 'send'
  | 'sendImm'
  | 'sendInv'
  | 'fetchAdd'
  | 'compareSwap'
  | 'localInv'
  | 'bind'
  | 'wait'
  | 'enable';

export interface Op {
  kind: Kind;
  /** Lengths of the elements, which are not adjacent. Empty for a request without elements. */
  sges: readonly number[];
  /** IBV_SEND_* */
  flags: number;
  inline: boolean;
  /** wr_id; by default 1, 2, 3 ... in the order of posting. */
  id?: bigint;
  /** Address at the peer, by default in a separate range. */
  at?: number;
  /** Local address, by default in a separate range. */
  from?: number;
  /** Remote key, by default that of the peer's region. For SEND_WITH_INV and LOCAL_INV: the key to invalidate. */
  rkey?: number;
  lkey?: number;
  /** Whether the request is lost silently. */
  isLost: boolean;
  /** Whether the request fails after its first byte, so that the memory that it writes is not compared. */
  isFaulty: boolean;
  bind?: { mw: V.MwInfo; at: number; bytes: number; access: number; rkey: number; mr?: number };
  /** The CQ of a WAIT, or the queue pair of an ENABLE. */
  target?: number;
  count?: number;
  repeat?: number;
  /** The destination, for UD. */
  ah?: number;
  qkey?: number;
  /** An opcode that no constructor makes. */
  opcode?: number;
}

/** A length beyond one packet, so that every policy that cuts requests cuts the message. */
export const LONG = 3000;
export const { IBV_SEND_SIGNALED: SIGNALED, IBV_SEND_FENCE: FENCE, IBV_SEND_SOLICITED: SOLICITED } = V;

export type Extra = Partial<Op> & { bytes?: number };

function make(kind: Kind, { bytes, ...extra }: Extra = {}): Op {
  const sges = bytes === undefined ? [LONG] : [bytes];
  return { kind, sges, flags: SIGNALED, inline: false, isLost: false, isFaulty: false, ...extra };
}

export const write = (extra?: Extra) => make('write', extra);
export const writeImm = (extra?: Extra) => make('writeImm', extra);
export const read = (extra?: Extra) => make('read', extra);
export const send = (extra?: Extra) => make('send', extra);
export const sendImm = (extra?: Extra) => make('sendImm', extra);
export const sendInv = (rkey: number, extra?: Extra) => make('sendInv', { rkey, ...extra });
export const fetchAdd = (extra?: Extra) => make('fetchAdd', { bytes: 8, ...extra });
export const compareSwap = (extra?: Extra) => make('compareSwap', { bytes: 8, ...extra });
export const localInv = (rkey: number, extra?: Extra) => make('localInv', { sges: [], rkey, ...extra });
export const wait = (target: number, count: number, extra?: Extra) =>
  make('wait', { sges: [], target, count, ...extra });
export const enable = (target: number, count: number, extra?: Extra) =>
  make('enable', { sges: [], target, count, ...extra });
export const bind = (window: NonNullable<Op['bind']>, extra?: Extra) =>
  make('bind', { sges: [], bind: window, ...extra });

export const OPCODES: Record<Kind, number> = {
  write: V.IBV_WR_RDMA_WRITE,
  writeImm: V.IBV_WR_RDMA_WRITE_WITH_IMM,
  read: V.IBV_WR_RDMA_READ,
  send: V.IBV_WR_SEND,
  sendImm: V.IBV_WR_SEND_WITH_IMM,
  sendInv: V.IBV_WR_SEND_WITH_INV,
  fetchAdd: V.IBV_WR_ATOMIC_FETCH_AND_ADD,
  compareSwap: V.IBV_WR_ATOMIC_CMP_AND_SWP,
  localInv: V.IBV_WR_LOCAL_INV,
  bind: V.IBV_WR_BIND_MW,
  wait: V.ISO_WR_WAIT,
  enable: V.ISO_WR_ENABLE,
};

/** Completion opcodes by request, as in ibv_poll_cq(3). */
export const WC_NAMES: Record<Kind, string> = {
  write: 'RDMA_WRITE',
  writeImm: 'RDMA_WRITE',
  read: 'RDMA_READ',
  send: 'SEND',
  sendImm: 'SEND',
  sendInv: 'SEND',
  fetchAdd: 'FETCH_ADD',
  compareSwap: 'COMP_SWAP',
  localInv: 'LOCAL_INV',
  bind: 'BIND_MW',
  wait: 'DRIVER2',
  enable: 'DRIVER2',
};

export const ADD = 5n;
export const COMPARE = 3n;
export const SWAP = 9n;

export const isAtomic = (kind: Kind) => kind === 'fetchAdd' || kind === 'compareSwap';
export const isMessage = (kind: Kind) => kind === 'send' || kind === 'sendImm' || kind === 'sendInv';
/** Whether the request writes to local memory. */
export const comesBack = (kind: Kind) => kind === 'read' || isAtomic(kind);
export const hasRemote = (kind: Kind) => kind === 'write' || kind === 'writeImm' || comesBack(kind);
