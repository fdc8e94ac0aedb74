/**
 * Batches: the application's view of ring memory. Filling and reading them allocates nothing.
 * All values are numbers; 64-bit ones are exact below 2^53 (wr_id and atomic operands also as lo/hi pairs).
 */
import * as C from './constants.ts';
import { InvalidArgumentError, shown } from './errors.ts';
import * as L from './layout.ts';
import type { RingInfo } from './types.ts';
import type { Verbs } from './verbs.ts';

const TWO32 = 4294967296;
/** Multiplying by this is exact, and cheaper than a division. */
const HIGH = 1 / TWO32;

/** The verbs that batches require of a provider. */
export type RingVerbs = Pick<Verbs, 'createWrRing' | 'createWcRing' | 'destroyRing'>;

/** The size of a batch. */
export interface BatchOptions {
  /** The number of slots. */
  capacity: number;
  /** Scatter-gather elements per request. Default 2, the most that require no extension. */
  sges?: number;
  /** Longest inline message, in bytes. Default 0. */
  inlineBytes?: number;
}

/** Apart from the methods that append requests, because these are small enough for the compiler to inline. */
function refuse(name: string, value: unknown): never {
  const use = typeof value === 'bigint' ? `; use Number(${name})` : '';
  const other = name === 'wrId' ? ', or wrId(index, lo, hi) for all 64 bits' : '';
  throw new InvalidArgumentError(`${name} must be a number, got ${shown(value)}${use}${use && other}`);
}

abstract class WrBatch {
  /** Handle of the ring, for postSend and postRecv. */
  readonly ring: number;
  readonly capacity: number;
  /** The ring's memory as words (layout.ts). */
  readonly words: Uint32Array;
  readonly sges: number;
  readonly inlineBytes: number;
  /** Requests in the batch. */
  length = 0;
  protected readonly extBytes: number;
  private readonly verbs: RingVerbs;

  constructor(verbs: RingVerbs, options: BatchOptions) {
    const { capacity, sges = 2, inlineBytes = 0 } = options;
    const info: RingInfo = verbs.createWrRing(capacity, sges, inlineBytes);
    this.verbs = verbs;
    this.ring = info.handle;
    this.capacity = info.capacity;
    this.extBytes = info.extBytes;
    this.words = new Uint32Array(info.memory);
    this.sges = sges;
    this.inlineBytes = inlineBytes;
  }

  /** Empties the batch; what was posted from it is not affected. */
  clear(): this {
    this.length = 0;
    return this;
  }

  /** errno of the last post from this ring that was accepted only in part. */
  get errno(): number {
    return this.words[L.HDR_ERRNO];
  }

  /** REASON_* of the last post from this ring that was accepted only in part. */
  get reason(): number {
    return this.words[L.HDR_REASON];
  }

  /** Frees the ring. */
  close(): void {
    this.verbs.destroyRing(this.ring);
  }

  /** close(), for `using`. */
  [Symbol.dispose](): void {
    this.close();
  }

  /** Appends a scatter-gather element to request `index`. @throws InvalidArgumentError beyond `sges` */
  sge(index: number, addr: number, lengthBytes: number, lkey: number): this {
    const w = this.words;
    const op = L.slotAt(this.check(index)) + L.WR_OP;
    const n = w[op] >>> 16;
    if (n >= this.sges) {
      throw new InvalidArgumentError(
        `request ${index} has ${n} SGEs, all that this batch was made for (sges: ${this.sges})`,
      );
    }
    if (typeof addr !== 'number') refuse('addr', addr);
    const at = this.sgeAt(index, n);
    w[at] = addr;
    w[at + 1] = addr * HIGH;
    w[at + 2] = lengthBytes;
    w[at + 3] = lkey;
    w[op] += 1 << 16;
    return this;
  }

  /** Sets all 64 bits of wr_id. */
  wrId(index: number, lo: number, hi: number): this {
    const at = L.slotAt(this.check(index));
    this.words[at] = lo;
    this.words[at + 1] = hi;
    return this;
  }

  protected sgeAt(index: number, n: number): number {
    if (n < 2) return L.slotAt(index) + L.WR_SGE0 + n * L.SGE_WORDS;
    return L.extAt(index, this.capacity, this.extBytes) + (n - 2) * L.SGE_WORDS;
  }

  protected check(index: number): number {
    if (index >>> 0 >= this.length) throw new InvalidArgumentError(`the batch has no request ${index}`);
    return index;
  }

  /** Begins the next request; returns the first word of its slot. */
  protected next(wrId: number, opFlags: number): number {
    if (typeof wrId !== 'number') refuse('wrId', wrId);
    const index = this.length;
    if (index >= this.capacity) this.full();
    this.length = index + 1;
    const at = L.HEADER_WORDS + (index << 4);
    const w = this.words;
    w[at] = wrId;
    w[at + 1] = wrId * HIGH;
    w[at + 2] = opFlags;
    return at;
  }

  /** A request of one element, or of none if length and lkey are 0. */
  protected put(wrId: number, opFlags: number, addr: number, lengthBytes: number, lkey: number): number {
    if (typeof addr !== 'number') refuse('addr', addr);
    if (lengthBytes === 0 && lkey === 0) return this.next(wrId, opFlags);
    const at = this.next(wrId, opFlags | (1 << 16));
    const w = this.words;
    w[at + 8] = addr;
    w[at + 9] = addr * HIGH;
    w[at + 10] = lengthBytes;
    w[at + 11] = lkey;
    return at;
  }

  private full(): never {
    throw new InvalidArgumentError(`the batch is full (capacity ${this.capacity}); post it, then clear()`);
  }
}

/** Send work requests (ibv_send_wr). Each method appends one; the flags are IBV_SEND_*. */
export class SendBatch extends WrBatch {
  private bytes: Uint8Array | null = null;

  /** SEND of one element; more with `sge()`. A length of 0 with lkey 0 makes a message of no elements. */
  send(wrId: number, flags: number, addr: number, lengthBytes: number, lkey: number): this {
    const at = this.put(wrId, C.IBV_WR_SEND | (flags << 8), addr, lengthBytes, lkey);
    this.unaddressed(at);
    return this;
  }

  /** SEND_WITH_IMM; `imm` in host byte order. */
  sendImm(wrId: number, flags: number, addr: number, lengthBytes: number, lkey: number, imm: number): this {
    const at = this.put(wrId, C.IBV_WR_SEND_WITH_IMM | (flags << 8), addr, lengthBytes, lkey);
    this.words[at + L.WR_IMM] = imm;
    this.unaddressed(at);
    return this;
  }

  /** RDMA_WRITE of one element to `remoteAddr`. */
  write(
    wrId: number,
    flags: number,
    addr: number,
    lengthBytes: number,
    lkey: number,
    remoteAddr: number,
    rkey: number,
  ): this {
    const at = this.put(wrId, C.IBV_WR_RDMA_WRITE | (flags << 8), addr, lengthBytes, lkey);
    this.remote(at, remoteAddr, rkey);
    return this;
  }

  /** RDMA_WRITE_WITH_IMM; consumes a receive at the peer. */
  writeImm(
    wrId: number,
    flags: number,
    addr: number,
    lengthBytes: number,
    lkey: number,
    remoteAddr: number,
    rkey: number,
    imm: number,
  ): this {
    const at = this.put(wrId, C.IBV_WR_RDMA_WRITE_WITH_IMM | (flags << 8), addr, lengthBytes, lkey);
    this.remote(at, remoteAddr, rkey);
    this.words[at + L.WR_IMM] = imm;
    this.words[at + L.WR_SRQN] = 0;
    return this;
  }

  /** RDMA_READ of `lengthBytes` at `remoteAddr` into one element. */
  read(
    wrId: number,
    flags: number,
    addr: number,
    lengthBytes: number,
    lkey: number,
    remoteAddr: number,
    rkey: number,
  ): this {
    const at = this.put(wrId, C.IBV_WR_RDMA_READ | (flags << 8), addr, lengthBytes, lkey);
    this.remote(at, remoteAddr, rkey);
    return this;
  }

  /** ATOMIC_FETCH_AND_ADD; the old value lands in the 8 bytes at `addr`. */
  fetchAdd(
    wrId: number,
    flags: number,
    addr: number,
    lkey: number,
    remoteAddr: number,
    rkey: number,
    add: bigint,
  ): this {
    return this.atomic(C.IBV_WR_ATOMIC_FETCH_AND_ADD, wrId, flags, addr, lkey, remoteAddr, rkey, add, 0n);
  }

  /** ATOMIC_CMP_AND_SWP; the old value lands in the 8 bytes at `addr`. */
  compareSwap(
    wrId: number,
    flags: number,
    addr: number,
    lkey: number,
    remoteAddr: number,
    rkey: number,
    compare: bigint,
    swap: bigint,
  ): this {
    return this.atomic(C.IBV_WR_ATOMIC_CMP_AND_SWP, wrId, flags, addr, lkey, remoteAddr, rkey, compare, swap);
  }

  /** SEND_WITH_INV: invalidates the peer's key `rkey` when the message has arrived. */
  sendInv(wrId: number, flags: number, addr: number, lengthBytes: number, lkey: number, rkey: number): this {
    const at = this.put(wrId, C.IBV_WR_SEND_WITH_INV | (flags << 8), addr, lengthBytes, lkey);
    this.words[at + L.WR_IMM] = rkey;
    return this;
  }

  /** LOCAL_INV: invalidates a key of this side. */
  localInv(wrId: number, flags: number, rkey: number): this {
    const at = this.next(wrId, C.IBV_WR_LOCAL_INV | (flags << 8));
    this.words[at + L.WR_IMM] = rkey;
    return this;
  }

  /**
   * BIND_MW: the window `mw` opens `lengthBytes` at `addr` of the region `mr` (handles; length 0 unbinds).
   * `rkey` is the new key of a type 2 window; for type 1 the device chooses it.
   */
  bindMw(
    wrId: number,
    flags: number,
    mw: number,
    mr: number,
    addr: number,
    lengthBytes: number,
    access: number,
    rkey = 0,
  ): this {
    const at = this.next(wrId, C.IBV_WR_BIND_MW | (flags << 8));
    const w = this.words;
    w[at + L.WR_RKEY] = rkey;
    w[at + L.WR_BIND_MW] = mw;
    w[at + L.WR_BIND_MR] = mr;
    w[at + L.WR_BIND_ADDR_LO] = addr;
    w[at + L.WR_BIND_ADDR_HI] = addr * HIGH;
    w[at + L.WR_BIND_LENGTH_LO] = lengthBytes;
    w[at + L.WR_BIND_LENGTH_HI] = lengthBytes * HIGH;
    w[at + L.WR_BIND_ACCESS] = access;
    return this;
  }

  /**
   * Any opcode, with a message that is copied at once (IBV_SEND_INLINE); set the other fields with remoteTo() and
   * imm().
   */
  inline(wrId: number, opcode: number, flags: number, data: Uint8Array): this {
    // In another realm, such as a context of node:vm, the class is another one.
    if (!ArrayBuffer.isView(data) || data.BYTES_PER_ELEMENT !== 1) {
      throw new InvalidArgumentError(`inline: data must be a Uint8Array, got ${shown(data)}`);
    }
    if (data.length > this.inlineBytes) {
      throw new InvalidArgumentError(
        `${data.length} inline bytes, but this batch was made for ${this.inlineBytes} (inlineBytes)`,
      );
    }
    const at = this.next(wrId, opcode | ((flags | C.IBV_SEND_INLINE) << 8));
    this.bytes ??= new Uint8Array(this.words.buffer);
    this.bytes.set(data, L.extAt(this.length - 1, this.capacity, this.extBytes) * 4);
    this.words[at + L.WR_INLINE_LENGTH] = data.length;
    this.words[at + L.WR_IMM] = 0;
    this.unaddressed(at);
    return this;
  }

  /** Byte offset of request `index`'s inline message in the ring's memory. */
  inlineAt(index: number): number {
    return L.extAt(this.check(index), this.capacity, this.extBytes) * 4;
  }

  /** ISO_WR_WAIT on a completion queue; count 0 is PeRF's 0_WAIT, of which one slot stands for `repeat`. */
  wait(wrId: number, flags: number, cq: number, count: number, repeat = 1): this {
    const at = this.next(wrId, C.ISO_WR_WAIT | (flags << 8));
    this.words[at + L.WR_TARGET] = cq;
    this.words[at + L.WR_COUNT] = count;
    this.words[at + L.WR_REPEAT] = repeat;
    return this;
  }

  /** ISO_WR_ENABLE of `count` requests of a managed queue pair (0: all). */
  enable(wrId: number, flags: number, qp: number, count: number): this {
    const at = this.next(wrId, C.ISO_WR_ENABLE | (flags << 8));
    this.words[at + L.WR_TARGET] = qp;
    this.words[at + L.WR_COUNT] = count;
    return this;
  }

  /** Sets the remote address and key of request `index`. */
  remoteTo(index: number, remoteAddr: number, rkey: number): this {
    this.remote(L.slotAt(this.check(index)), remoteAddr, rkey);
    return this;
  }

  /** Sets the destination of request `index` of a UD queue pair: address handle, number and Q_Key of the peer. */
  datagramTo(index: number, ah: number, qpNum: number, qkey: number): this {
    const at = L.slotAt(this.check(index));
    this.words[at + L.WR_AH] = ah;
    this.words[at + L.WR_REMOTE_QPN] = qpNum;
    this.words[at + L.WR_REMOTE_QKEY] = qkey;
    return this;
  }

  /** Sets the destination of request `index` of an XRC queue pair: a shared receive queue. */
  srqTo(index: number, srqNum: number): this {
    this.words[L.slotAt(this.check(index)) + L.WR_SRQN] = srqNum;
    return this;
  }

  /** Sets the immediate of request `index`, in host byte order. */
  imm(index: number, value: number): this {
    this.words[L.slotAt(this.check(index)) + L.WR_IMM] = value;
    return this;
  }

  /** Clears the destination of the previous request in this slot. */
  private unaddressed(at: number): void {
    this.words[at + L.WR_AH] = 0;
    this.words[at + L.WR_SRQN] = 0;
  }

  private remote(at: number, remoteAddr: number, rkey: number): void {
    if (typeof remoteAddr !== 'number') {
      this.length--;
      refuse('remoteAddr', remoteAddr);
    }
    const w = this.words;
    w[at + 4] = remoteAddr;
    w[at + 5] = remoteAddr * HIGH;
    w[at + 6] = rkey;
  }

  private atomic(
    opcode: number,
    wrId: number,
    flags: number,
    addr: number,
    lkey: number,
    remoteAddr: number,
    rkey: number,
    compare: bigint,
    swap: bigint,
  ): this {
    if (typeof compare !== 'bigint' || typeof swap !== 'bigint') {
      const wanted =
        opcode === C.IBV_WR_ATOMIC_CMP_AND_SWP ? 'compare and swap must be BigInts' : 'add must be a BigInt';
      throw new InvalidArgumentError(`${wanted}, such as 1n`);
    }
    const at = this.put(wrId, opcode | (flags << 8), addr, 8, lkey);
    this.remote(at, remoteAddr, rkey);
    this.words[at + L.WR_COMPARE_LO] = Number(compare & 0xffffffffn);
    this.words[at + L.WR_COMPARE_HI] = Number((compare >> 32n) & 0xffffffffn);
    this.words[at + L.WR_SWAP_LO] = Number(swap & 0xffffffffn);
    this.words[at + L.WR_SWAP_HI] = Number((swap >> 32n) & 0xffffffffn);
    return this;
  }
}

/** Receive work requests (ibv_recv_wr). */
export class RecvBatch extends WrBatch {
  /** A receive into one element; more with `sge()`. */
  recv(wrId: number, addr: number, lengthBytes: number, lkey: number): this {
    this.put(wrId, 0, addr, lengthBytes, lkey);
    return this;
  }
}
