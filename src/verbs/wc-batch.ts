/** A batch of completions: the application's view of a ring that polls fill. Reading it allocates nothing. */
import type { RingVerbs } from './batch.ts';
import * as C from './constants.ts';
import * as L from './layout.ts';

const TWO32 = 4294967296;

/** Completions (ibv_wc), read in place. `index` is below the count that the poll returned. */
export class WcBatch {
  readonly ring: number;
  readonly capacity: number;
  readonly words: Uint32Array;
  /** Completions of the last poll. */
  length = 0;
  private readonly verbs: RingVerbs;

  constructor(verbs: RingVerbs, options: { capacity: number }) {
    const info = verbs.createWcRing(options.capacity);
    this.verbs = verbs;
    this.ring = info.handle;
    this.capacity = info.capacity;
    this.words = new Uint32Array(info.memory);
  }

  /** wr_id as a number: exact below 2^53. */
  wrId(index: number): number {
    const at = L.slotAt(index);
    return this.words[at] + this.words[at + 1] * TWO32;
  }

  /** The 64-bit wr_id. */
  wrIdBigInt(index: number): bigint {
    const at = L.slotAt(index);
    return (BigInt(this.words[at + 1]) << 32n) | BigInt(this.words[at]);
  }

  /** IBV_WC_SUCCESS or another status. */
  status(index: number): number {
    return this.words[L.slotAt(index) + L.WC_OP] & 0xff;
  }

  /** IBV_WC_* opcode; undefined on errors, as in libibverbs. */
  opcode(index: number): number {
    return (this.words[L.slotAt(index) + L.WC_OP] >>> 8) & 0xff;
  }

  /** IBV_WC_WITH_IMM, IBV_WC_GRH. */
  flags(index: number): number {
    return (this.words[L.slotAt(index) + L.WC_OP] >>> 16) & 0xff;
  }

  /** Whether it completes a receive; valid on errors too. */
  isRecv(index: number): boolean {
    return (this.words[L.slotAt(index) + L.WC_OP] & L.WC_RECV_SIDE) !== 0;
  }

  /** Length of the message: receives, READs and atomics. */
  byteLen(index: number): number {
    return this.words[L.slotAt(index) + L.WC_BYTE_LEN];
  }

  /** Immediate data in host byte order with IBV_WC_WITH_IMM, the invalidated key with IBV_WC_WITH_INV. */
  imm(index: number): number {
    return this.words[L.slotAt(index) + L.WC_IMM];
  }

  /** Handle of the queue pair. */
  qp(index: number): number {
    return this.words[L.slotAt(index) + L.WC_QP];
  }

  /** Number of the queue pair on the wire. */
  qpNum(index: number): number {
    return this.words[L.slotAt(index) + L.WC_QP_NUM];
  }

  /** UD receives: number of the sending queue pair. */
  srcQp(index: number): number {
    return this.words[L.slotAt(index) + L.WC_SRC_QP];
  }

  /** UD receives: index of the P_Key. */
  pkeyIndex(index: number): number {
    return this.words[L.slotAt(index) + L.WC_PKEY_SLID] & 0xffff;
  }

  /** UD receives: local identifier of the sender; 0 on RoCE. */
  slid(index: number): number {
    return this.words[L.slotAt(index) + L.WC_PKEY_SLID] >>> 16;
  }

  /** UD receives: service level. */
  sl(index: number): number {
    return this.words[L.slotAt(index) + L.WC_SL_PATH_BITS] & 0xff;
  }

  /** UD receives: dlid_path_bits. */
  dlidPathBits(index: number): number {
    return (this.words[L.slotAt(index) + L.WC_SL_PATH_BITS] >>> 8) & 0xff;
  }

  /** Extended queues: the device's clock at completion (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP). */
  ticks(index: number): bigint {
    const at = L.slotAt(index);
    return (BigInt(this.words[at + L.WC_TICKS_HI]) << 32n) | BigInt(this.words[at + L.WC_TICKS_LO]);
  }

  /** Extended queues: time of day in nanoseconds (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK). */
  wallclockNs(index: number): bigint {
    const at = L.slotAt(index);
    return (BigInt(this.words[at + L.WC_WALLCLOCK_HI]) << 32n) | BigInt(this.words[at + L.WC_WALLCLOCK_LO]);
  }

  /** Handle of the shared receive queue that supplied the receive; 0 for the queue pair's own queue. */
  srq(index: number): number {
    return this.words[L.slotAt(index) + L.WC_SRQ];
  }

  /** The vendor's error code, on errors. */
  vendorErr(index: number): number {
    return this.words[L.slotAt(index) + L.WC_SRC_QP];
  }

  /** Frees the ring. */
  close(): void {
    this.verbs.destroyRing(this.ring);
  }

  /** close(), for `using`. */
  [Symbol.dispose](): void {
    this.close();
  }
}

const WC_OPCODES = [
  C.IBV_WC_RDMA_WRITE,
  C.IBV_WC_RDMA_WRITE,
  C.IBV_WC_SEND,
  C.IBV_WC_SEND,
  C.IBV_WC_RDMA_READ,
  C.IBV_WC_COMP_SWAP,
  C.IBV_WC_FETCH_ADD,
  C.IBV_WC_LOCAL_INV,
  C.IBV_WC_BIND_MW,
  C.IBV_WC_SEND,
];

/** Completion opcodes by IBV_WR_* or ISO_WR_*. */
export function wcOpcode(opcode: number): number {
  return opcode >= C.ISO_WR_WAIT ? C.IBV_WC_DRIVER2 : WC_OPCODES[opcode];
}
