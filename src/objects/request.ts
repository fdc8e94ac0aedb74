/** Work requests as plain objects, packed into a batch of one. Hot paths use batches. */
import * as C from '../verbs/constants.ts';
import {
  InvalidArgumentError,
  type RecvBatch,
  requireKnown,
  type SendBatch,
  shown,
  slotAt,
  WR_OP,
} from '../verbs/index.ts';
import { accessBits } from './access.ts';
import type { AddressHandle } from './address-handle.ts';
import type { Context } from './context.ts';
import type { MemoryRegion } from './memory-region.ts';
import type { BindOptions, MemoryWindow } from './memory-window.ts';
import type { QpType } from './qp-options.ts';
import { requireOwned } from './resource.ts';

/** A scatter-gather element: a range of registered memory. */
export interface Sge {
  mr: MemoryRegion;
  /** Bytes from the start of the region. Default 0. */
  offset?: number;
  /** Length in bytes. Default: up to the end of the region. */
  length?: number;
}

/** Memory of the peer: the address and key that the peer announced. */
export interface RemoteMemory {
  addr: number | bigint;
  rkey: number;
}

/** Destination of a datagram. */
export interface Destination {
  /** Address handle of the receiver's port or of a multicast group, in the protection domain of the queue pair. */
  ah: AddressHandle;
  /** Number of the receiving queue pair; 0xffffff for a multicast group. */
  qpNum: number;
  /** Q_Key of the receiver. Default: the Q_Key of the sending queue pair. */
  qkey?: number;
}

/** Operands of IBV_WR_BIND_MW; `mr: null` revokes the window. MemoryWindow.bind() and unbind() build them. */
export interface Bind extends Omit<BindOptions, 'mr'> {
  window: MemoryWindow;
  mr: MemoryRegion | null;
}

/** Flags of a send request (IBV_SEND_*). */
export interface SendFlags {
  /** Generate a completion. Default true (batches: only with IBV_SEND_SIGNALED). */
  signaled?: boolean;
  /** Wait for earlier READs and atomics before starting. */
  fence?: boolean;
  /** Wake a peer that waits for solicited events only. */
  solicited?: boolean;
  /** Copy the data of sgList during the post, so that its memory can be reused at once. */
  inline?: boolean;
}

/** Opcode of a send request: the name of IBV_WR_*. */
export type SendOpcode =
  | 'SEND'
  | 'SEND_WITH_IMM'
  | 'RDMA_WRITE'
  | 'RDMA_WRITE_WITH_IMM'
  | 'RDMA_READ'
  | 'ATOMIC_CMP_AND_SWP'
  | 'ATOMIC_FETCH_AND_ADD'
  | 'SEND_WITH_INV'
  | 'LOCAL_INV'
  | 'BIND_MW';

/** A send request (ibv_send_wr, ibv_post_send(3)). */
export interface SendRequest {
  opcode: SendOpcode;
  /** A 64-bit number that the completion returns. Default 0. */
  wrId?: number | bigint;
  sgList?: readonly Sge[];
  /** Target of RDMA and atomic opcodes. */
  remote?: RemoteMemory;
  /** For *_WITH_IMM: 32 bits, in host byte order. */
  imm?: number;
  flags?: SendFlags;
  /** Bytes to send inline instead of sgList; implies flags.inline. */
  inlineData?: Uint8Array;
  /** Summand of ATOMIC_FETCH_AND_ADD. */
  add?: bigint;
  /** Operands of ATOMIC_CMP_AND_SWP. */
  compare?: bigint;
  swap?: bigint;
  /** Destination, on UD queue pairs. */
  to?: Destination;
  /** Key to invalidate: a peer's window for SEND_WITH_INV, a window of this side for LOCAL_INV. */
  invalidate?: number;
  /** Number of the receiver's shared receive queue, on XRC_SEND queue pairs. */
  srqNum?: number;
  /** Operands of BIND_MW. */
  bind?: Bind;
}

/** A receive request (ibv_recv_wr, ibv_post_recv(3)). */
export interface RecvRequest {
  wrId?: number | bigint;
  sgList?: readonly Sge[];
}

const OPCODES: Record<SendOpcode, number> = {
  SEND: C.IBV_WR_SEND,
  SEND_WITH_IMM: C.IBV_WR_SEND_WITH_IMM,
  RDMA_WRITE: C.IBV_WR_RDMA_WRITE,
  RDMA_WRITE_WITH_IMM: C.IBV_WR_RDMA_WRITE_WITH_IMM,
  RDMA_READ: C.IBV_WR_RDMA_READ,
  ATOMIC_CMP_AND_SWP: C.IBV_WR_ATOMIC_CMP_AND_SWP,
  ATOMIC_FETCH_AND_ADD: C.IBV_WR_ATOMIC_FETCH_AND_ADD,
  SEND_WITH_INV: C.IBV_WR_SEND_WITH_INV,
  LOCAL_INV: C.IBV_WR_LOCAL_INV,
  BIND_MW: C.IBV_WR_BIND_MW,
};

/** The IBV_WR_* constant of an opcode name. @throws InvalidArgumentError */
export function wrOpcode(name: SendOpcode): number {
  const opcode = OPCODES[name];
  if (opcode !== undefined) return opcode;
  throw new InvalidArgumentError(`unknown opcode '${name}'; use ${Object.keys(OPCODES).join(', ')}`);
}

const SEND_KEYS = [
  ...['opcode', 'wrId', 'sgList', 'remote', 'imm', 'flags', 'inlineData', 'add', 'compare', 'swap'],
  ...['to', 'invalidate', 'srqNum', 'bind'],
];
const RECV_KEYS = ['wrId', 'sgList'];
const SGE_KEYS = ['mr', 'offset', 'length'];
const FLAG_KEYS = ['signaled', 'fence', 'solicited', 'inline'];

/** Properties that an opcode requires in addition to its data. */
const NEEDS: Partial<Record<SendOpcode, readonly ('remote' | 'imm' | 'invalidate')[]>> = {
  SEND_WITH_IMM: ['imm'],
  RDMA_WRITE: ['remote'],
  RDMA_WRITE_WITH_IMM: ['remote', 'imm'],
  RDMA_READ: ['remote'],
  ATOMIC_CMP_AND_SWP: ['remote'],
  ATOMIC_FETCH_AND_ADD: ['remote'],
  SEND_WITH_INV: ['invalidate'],
  LOCAL_INV: ['invalidate'],
};
const FORMS = {
  remote: 'remote: { addr, rkey }',
  imm: 'imm, 32 bits',
  invalidate: 'invalidate, a key',
  to: 'to: { ah, qpNum }',
  srqNum: 'srqNum',
};

/** Properties of the posting queue pair that packing requires. */
export interface PostingQp {
  context: Context;
  type: QpType;
  qkey: number;
}

/** Fills an empty batch with one send request. @throws InvalidArgumentError, InvalidHandleError */
export function packSend(batch: SendBatch, request: SendRequest, sender: PostingQp): void {
  requireKnown('a send request', request, SEND_KEYS);
  const opcode = wrOpcode(request.opcode);
  requireWhole(request, sender.type);
  const { context } = sender;
  const { remote, to, srqNum, imm, invalidate } = request;
  const pieces = piecesOf(request.sgList, context);
  const bits = flagBits(request.flags);
  batch.clear();
  if (opcode === C.IBV_WR_BIND_MW) {
    appendBind(batch, request.bind, bits, context);
  } else if (request.inlineData !== undefined || (bits & C.IBV_SEND_INLINE) !== 0) {
    batch.inline(0, opcode, bits, request.inlineData ?? gather(pieces));
  } else {
    appendPlain(batch, request, opcode, bits, pieces);
  }
  if (remote !== undefined) batch.remoteTo(0, toNumber(remote.addr, 'remote.addr'), remote.rkey);
  if (to !== undefined) {
    const ah = requireOwned(to.ah, 'AddressHandle', context, 'to.ah');
    batch.datagramTo(0, ah.handle, toNumber(to.qpNum, 'to.qpNum'), to.qkey ?? sender.qkey);
  }
  if (srqNum !== undefined) batch.srqTo(0, toNumber(srqNum, 'srqNum'));
  if (imm !== undefined) batch.imm(0, imm);
  if (opcode === C.IBV_WR_SEND_WITH_INV || opcode === C.IBV_WR_LOCAL_INV) {
    batch.imm(0, invalidate as number);
  }
  setWrId(batch, request.wrId);
}

/** Checks for missing properties: the slot would keep those of the previous request. */
function requireWhole(request: SendRequest, type: QpType): void {
  const { opcode } = request;
  for (const name of NEEDS[opcode] ?? []) {
    if (request[name] == null) throw new InvalidArgumentError(`${opcode} requires ${FORMS[name]}`);
  }
  if (opcode === 'LOCAL_INV' || opcode === 'BIND_MW') return;
  const received = opcode.startsWith('SEND') || opcode === 'RDMA_WRITE_WITH_IMM';
  const target = type === 'UD' ? 'to' : type === 'XRC_SEND' && received ? 'srqNum' : null;
  if (target === null || request[target] != null) return;
  throw new InvalidArgumentError(`${opcode} on a queue pair of type ${type} requires ${FORMS[target]}`);
}

function appendBind(batch: SendBatch, bind: Bind | undefined, bits: number, context: Context): void {
  if (bind === undefined) throw new InvalidArgumentError('BIND_MW requires bind: { window, mr, ... }');
  const window = requireOwned(bind.window, 'MemoryWindow', context, 'bind.window');
  const { mr, access, rkey = 0 } = bind;
  const rights = accessBits(access, false);
  if (mr === null) {
    batch.bindMw(0, bits, window.handle, 0, 0, 0, rights, rkey);
    return;
  }
  const { addr, length } = resolve({ mr, offset: bind.offset, length: bind.length }, 0, context, 'bind');
  batch.bindMw(0, bits, window.handle, mr.handle, addr, length, rights, rkey);
}

/** Fills an empty batch with one receive request. */
export function packRecv(batch: RecvBatch, request: RecvRequest, context: Context): void {
  requireKnown('a receive request', request, RECV_KEYS);
  const pieces = piecesOf(request.sgList, context);
  batch.clear().recv(0, 0, 0, 0);
  for (const piece of pieces) batch.sge(0, piece.addr, piece.length, piece.mr.lkey);
  setWrId(batch, request.wrId);
}

interface Piece {
  mr: MemoryRegion;
  offset: number;
  length: number;
  addr: number;
}

function piecesOf(sgList: readonly Sge[] | undefined, context: Context): Piece[] {
  if (sgList === undefined || sgList === null) return [];
  if (Array.isArray(sgList)) return sgList.map((sge, i) => resolve(sge, i, context));
  throw new InvalidArgumentError(
    `sgList must be an array of { mr, offset, length } objects, got ${shown(sgList)}; put a single element into an array, too`,
  );
}

function appendPlain(
  batch: SendBatch,
  request: SendRequest,
  opcode: number,
  bits: number,
  pieces: Piece[],
): void {
  if (opcode === C.IBV_WR_ATOMIC_FETCH_AND_ADD || opcode === C.IBV_WR_ATOMIC_CMP_AND_SWP) {
    if (pieces.length !== 1)
      throw new InvalidArgumentError('an atomic requires one element of 8 bytes in sgList');
    const { addr, mr } = pieces[0];
    if (opcode === C.IBV_WR_ATOMIC_FETCH_AND_ADD) {
      batch.fetchAdd(0, bits, addr, mr.lkey, 0, 0, operand(request, 'add'));
    } else {
      batch.compareSwap(0, bits, addr, mr.lkey, 0, 0, operand(request, 'compare'), operand(request, 'swap'));
    }
    return;
  }
  // These opcodes share one layout: append a SEND without elements, then replace its opcode.
  batch.send(0, bits, 0, 0, 0);
  batch.words[slotAt(0) + WR_OP] = opcode | (bits << 8);
  for (const piece of pieces) batch.sge(0, piece.addr, piece.length, piece.mr.lkey);
}

function operand(request: SendRequest, name: 'add' | 'compare' | 'swap'): bigint {
  const value = request[name];
  if (typeof value !== 'bigint')
    throw new InvalidArgumentError(`${request.opcode} requires ${name}, a bigint`);
  return value;
}

function resolve(sge: Sge, index: number, context: Context, where = `sgList[${index}]`): Piece {
  requireKnown(where, sge, SGE_KEYS);
  const { mr, offset = 0 } = sge;
  requireOwned(mr, 'MemoryRegion', context, `${where}.mr`);
  const { length = mr.lengthBytes - offset } = sge;
  if (!(offset >= 0 && length >= 0 && offset + length <= mr.lengthBytes)) {
    throw new InvalidArgumentError(
      `${where}: offset ${offset} and length ${length} exceed the ${mr.lengthBytes} bytes of ${mr.label}`,
    );
  }
  return { mr, offset, length, addr: mr.addr + offset };
}

function gather(pieces: Piece[]): Uint8Array {
  return Buffer.concat(pieces.map(({ mr, offset, length }) => mr.bytes.subarray(offset, offset + length)));
}

function flagBits(flags: SendFlags = {}): number {
  requireKnown('flags', flags, FLAG_KEYS);
  const { signaled = true, fence = false, solicited = false, inline = false } = flags;
  let bits = signaled ? C.IBV_SEND_SIGNALED : 0;
  if (fence) bits |= C.IBV_SEND_FENCE;
  if (solicited) bits |= C.IBV_SEND_SOLICITED;
  if (inline) bits |= C.IBV_SEND_INLINE;
  return bits;
}

function toNumber(value: number | bigint, name: string): number {
  const number = Number(value);
  if (!Number.isSafeInteger(number) || number < 0) {
    throw new InvalidArgumentError(`${name} must be an integer from 0 to 2^53 - 1, got ${shown(value)}`);
  }
  return number;
}

function setWrId(batch: SendBatch | RecvBatch, wrId: number | bigint = 0): void {
  if (typeof wrId !== 'bigint' && !Number.isSafeInteger(wrId)) {
    throw new InvalidArgumentError(`wrId must be a bigint or a safe integer, got ${shown(wrId)}`);
  }
  const bits = BigInt.asUintN(64, BigInt(wrId));
  batch.wrId(0, Number(bits & 0xffffffffn), Number(bits >> 32n));
}
