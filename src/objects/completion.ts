import * as C from '../verbs/constants.ts';
import {
  CompletionError,
  IBV_WC_SUCCESS,
  IBV_WC_WITH_IMM,
  IBV_WC_WITH_INV,
  WC_BYTE_LEN,
  WC_ID_HI,
  WC_ID_LO,
  WC_IMM,
  WC_OP,
  WC_PKEY_SLID,
  WC_QP,
  WC_QP_NUM,
  WC_RECV_SIDE,
  WC_SL_PATH_BITS,
  WC_SRC_QP,
  WC_SRQ,
  WC_TICKS_HI,
  WC_TICKS_LO,
  WC_WALLCLOCK_HI,
  WC_WALLCLOCK_LO,
  wcOpcodeName,
  wcStatusName,
} from '../verbs/index.ts';
import type { Context } from './context.ts';
import type { QueuePair } from './queue-pair.ts';
import type { SharedReceiveQueue } from './shared-receive-queue.ts';

/** One completion (ibv_wc, ibv_poll_cq(3)) as a plain object. */
export interface Completion {
  wrId: bigint;
  /** Status (IBV_WC_*); 0 is success. */
  status: number;
  /** 'SUCCESS', 'WR_FLUSH_ERR', ... */
  statusText: string;
  /** 'SEND', 'RECV', 'RDMA_WRITE', ...; null on errors, where it is undefined. */
  opcode: string | null;
  /** Message length in bytes of receives (datagrams: including the 40 bytes of GRH), READs and atomics. */
  byteLen: number;
  /** Immediate data in host byte order, or null when there is none. */
  imm: number | null;
  /** The local key that the peer's SEND_WITH_INV invalidated, or null. */
  invalidatedRkey: number | null;
  /** The queue pair, or null when it is closed. */
  qp: QueuePair | null;
  qpNum: number;
  /** The shared receive queue that supplied the receive, or null. */
  srq: SharedReceiveQueue | null;
  /** Datagram receives: number of the sending queue pair. Otherwise 0. */
  srcQp: number;
  /** Datagram receives: local identifier (LID) of the sender's port (0 on RoCE), service level, path bits. */
  slid: number;
  sl: number;
  dlidPathBits: number;
  pkeyIndex: number;
  /** Whether it completes a receive. Valid on errors too. */
  isRecv: boolean;
  /** IBV_WC_GRH, IBV_WC_WITH_IMM, IBV_WC_WITH_INV. */
  flags: number;
  /** The vendor's error code; 0 on success. */
  vendorErr: number;
  /** Queues with `timestamps`: device clock at completion (queryDeviceEx reports its rate). Otherwise null. */
  ticks: bigint | null;
  /** Queues with `wallclock`: time of day in nanoseconds. Otherwise null. */
  wallclockNs: bigint | null;
}

/** Fields that only extended completion queues report (IBV_WC_EX_WITH_* at creation). */
export interface Stamps {
  ticks: boolean;
  wallclock: boolean;
}

/** @internal Reads the completion in the slot that begins at `w[at]`. */
export function readCompletion(w: Uint32Array, at: number, context: Context, stamps: Stamps): Completion {
  const op = w[at + WC_OP];
  const status = op & 0xff;
  const ok = status === IBV_WC_SUCCESS;
  const flags = (op >>> 16) & 0xff;
  const pkeySlid = w[at + WC_PKEY_SLID];
  const slPathBits = w[at + WC_SL_PATH_BITS];
  const srq = w[at + WC_SRQ];
  return {
    wrId: wide(w, at + WC_ID_LO, at + WC_ID_HI),
    status,
    statusText: wcStatusName(status),
    opcode: ok ? wcOpcodeName((op >>> 8) & 0xff) : null,
    byteLen: w[at + WC_BYTE_LEN],
    imm: ok && (flags & IBV_WC_WITH_IMM) !== 0 ? w[at + WC_IMM] : null,
    invalidatedRkey: ok && (flags & IBV_WC_WITH_INV) !== 0 ? w[at + WC_IMM] : null,
    qp: (context.eventSubject(w[at + WC_QP]) as QueuePair | undefined) ?? null,
    qpNum: w[at + WC_QP_NUM],
    srq: srq === 0 ? null : ((context.eventSubject(srq) as SharedReceiveQueue | undefined) ?? null),
    srcQp: ok ? w[at + WC_SRC_QP] : 0,
    slid: pkeySlid >>> 16,
    sl: slPathBits & 0xff,
    dlidPathBits: (slPathBits >>> 8) & 0xff,
    pkeyIndex: pkeySlid & 0xffff,
    isRecv: (op & WC_RECV_SIDE) !== 0,
    flags,
    vendorErr: ok ? 0 : w[at + WC_SRC_QP],
    ticks: stamps.ticks ? wide(w, at + WC_TICKS_LO, at + WC_TICKS_HI) : null,
    wallclockNs: stamps.wallclock ? wide(w, at + WC_WALLCLOCK_LO, at + WC_WALLCLOCK_HI) : null,
  };
}

function wide(w: Uint32Array, lo: number, hi: number): bigint {
  return (BigInt(w[hi]) << 32n) | BigInt(w[lo]);
}

/** The usual cause of a status, and where to look (InfiniBand Architecture Specification 1.4, 11.6.2). */
const CAUSES: Readonly<Partial<Record<number, string>>> = {
  [C.IBV_WC_LOC_LEN_ERR]: 'the message is longer than the receive, or longer than the queue pair can send',
  [C.IBV_WC_LOC_PROT_ERR]:
    'a buffer lies outside its memory region, or the region does not allow this access',
  [C.IBV_WC_WR_FLUSH_ERR]:
    'the queue pair was in ERR; look for an earlier failed completion, or for the end of the connection',
  [C.IBV_WC_MW_BIND_ERR]: 'the memory region does not allow binding, or does not contain the range',
  [C.IBV_WC_REM_INV_REQ_ERR]:
    "the peer's queue pair does not allow this operation, or the receive there is too short for the message",
  [C.IBV_WC_REM_ACCESS_ERR]:
    "the rkey is not valid at the peer, the range exceeds the peer's memory region, or the access flags of that region or of the peer's queue pair do not allow the operation",
  [C.IBV_WC_REM_OP_ERR]: 'the peer could not complete the operation; check the completion at the peer',
  [C.IBV_WC_RETRY_EXC_ERR]: 'the peer does not answer, because its queue pair is closed or packets are lost',
  [C.IBV_WC_RNR_RETRY_EXC_ERR]: 'the peer had no receive posted',
};

/** Returns a successful completion unchanged. @throws CompletionError with the status of a failed one */
export function expectSuccess(completion: Completion): Completion {
  if (completion.status === IBV_WC_SUCCESS) return completion;
  const { statusText, status, wrId, qpNum, isRecv } = completion;
  const side = isRecv ? 'receive' : 'send';
  const cause = CAUSES[status];
  const hint = cause === undefined ? '' : ` (usual cause: ${cause})`;
  throw new CompletionError(`${side} request ${wrId} of queue pair ${qpNum} failed: ${statusText}${hint}`, {
    status,
  });
}
