/** Packets in flight: rows of typed arrays with a free list, and a slab of payload bytes. */

import { copyBytes } from '../memory/memory.ts';
import type { Ah } from '../network/address.ts';

// Kinds of packets.
export const PKT_SEND = 0;
export const PKT_WRITE = 1;
export const PKT_READ = 2;
export const PKT_COMPARE_SWAP = 3;
export const PKT_FETCH_ADD = 4;
/** One packet of a READ's data, or the old value returned by an atomic: `imm` is the kind of the request. */
export const PKT_RESPONSE = 5;
/** A whole message of a UD queue pair. */
export const PKT_DATAGRAM = 6;
/** An acknowledgement: `imm` is its syndrome, and `rkey` the epoch of the requester that it is for. */
export const PKT_ACK = 7;

// Flags of packets.
export const FIRST = 1;
export const LAST = 2;
export const HAS_IMM = 4;
export const SOLICITED = 8;
export const ACK_REQUEST = 16;
/** The immediate is a key to invalidate. */
export const HAS_INV = 32;
/** ECN's "congestion experienced": the packet met a queue. */
export const CONGESTED = 64;

/** Payload room of one packet: the largest MTU in verbs. */
export const SLAB_BYTES = 4096;
/** Payload of at most this many bytes is always in the slab: copying it byte by byte costs less than a view. */
export const SHORT_BYTES = 128;

export class PacketPool {
  kind = new Uint8Array(0);
  flags = new Uint8Array(0);
  source = new Int32Array(0);
  /** Epoch of the source's connection. Packets from before a reset disappear. */
  epoch = new Int32Array(0);
  dest = new Int32Array(0);
  psn = new Int32Array(0);
  /** Payload bytes. */
  length = new Int32Array(0);
  imm = new Int32Array(0);
  /** Remote key, or the Q_Key of a datagram. */
  rkey = new Int32Array(0);
  /** XRC: number of the shared receive queue that the request names. */
  srqNum = new Int32Array(0);
  /** Datagrams: the address handle used. */
  ah: (Ah | null)[] = [];
  /** Remote address of this packet's first byte. */
  addr = new Float64Array(0);
  /** Remaining bytes of the message, from this packet's first byte. */
  rest = new Float64Array(0);
  bytes = new Uint8Array(0);
  words = new Uint32Array(0);
  /**
   * By packet: its payload if that is outside the slab, otherwise null. Only payload longer than SHORT_BYTES can be
   * outside, and only until an uplink has sent the packet, or a packet from an uplink has been executed.
   */
  outside: (Uint8Array | null)[] = [];
  /** By packet: a view of its slab, and of the payload that it had last, so that copying allocates nothing. */
  private views: Uint8Array[] = [];
  private parts: Uint8Array[] = [];
  /**
   * In the receiver: when the packet may be executed, and the next packet of the same queue pair (-1: none).
   */
  readyNs = new Float64Array(0);
  next = new Int32Array(0);
  /** Packets in use. */
  live = 0;
  private capacity = 0;
  private free = new Int32Array(0);

  constructor() {
    this.grow(64);
  }

  take(): number {
    if (this.live === this.capacity) this.grow(this.capacity * 2);
    const p = this.free[this.live];
    this.live = (this.live + 1) | 0;
    return p;
  }

  /** Packets are reused last in, first out: the slab of the latest is still in the CPU cache. */
  release(p: number): void {
    this.live = (this.live - 1) | 0;
    this.free[this.live] = p;
  }

  /** Duplicates a packet with this many bytes of its slab. */
  copy(p: number, slabBytes: number): number {
    const to = this.take();
    for (const field of [
      this.kind,
      this.flags,
      this.source,
      this.epoch,
      this.dest,
      this.psn,
      this.length,
      this.imm,
      this.rkey,
      this.srqNum,
      this.addr,
      this.rest,
    ]) {
      field[to] = field[p];
    }
    this.ah[to] = this.ah[p];
    const from = p * SLAB_BYTES;
    this.bytes.copyWithin(to * SLAB_BYTES, from, from + Math.min(slabBytes, SLAB_BYTES));
    return to;
  }

  /** Offset in `bytes` of the packet's first payload byte. */
  slab(p: number): number {
    return p * SLAB_BYTES;
  }

  /** The payload of a packet, where it is. */
  payload(p: number, length: number): Uint8Array {
    const outside = this.outside[p];
    if (outside !== null) return outside;
    if (length === SLAB_BYTES) return this.views[p];
    if (this.parts[p].length !== length) this.parts[p] = this.views[p].subarray(0, length);
    return this.parts[p];
  }

  /** Copies the payload of a packet to its destination. */
  copyOut(p: number, to: Uint8Array, at: number, length: number): void {
    if (length > SHORT_BYTES) to.set(this.payload(p, length), at);
    else copyBytes(to, at, this.bytes, p * SLAB_BYTES, length);
  }

  /** Copies a part of the payload of a packet to its destination. */
  copyPart(p: number, from: number, to: Uint8Array, at: number, length: number): void {
    const outside = this.outside[p];
    if (from === 0 && length === this.length[p]) this.copyOut(p, to, at, length);
    else if (outside !== null) copyBytes(to, at, outside, from, length);
    else copyBytes(to, at, this.bytes, p * SLAB_BYTES + from, length);
  }

  private grow(capacity: number): void {
    const old = this.capacity;
    const keep = <T extends Uint8Array | Int32Array | Float64Array>(to: T, from: T): T => {
      to.set(from);
      return to;
    };
    this.kind = keep(new Uint8Array(capacity), this.kind);
    this.flags = keep(new Uint8Array(capacity), this.flags);
    this.source = keep(new Int32Array(capacity), this.source);
    this.epoch = keep(new Int32Array(capacity), this.epoch);
    this.dest = keep(new Int32Array(capacity), this.dest);
    this.psn = keep(new Int32Array(capacity), this.psn);
    this.length = keep(new Int32Array(capacity), this.length);
    this.imm = keep(new Int32Array(capacity), this.imm);
    this.rkey = keep(new Int32Array(capacity), this.rkey);
    this.srqNum = keep(new Int32Array(capacity), this.srqNum);
    while (this.ah.length < capacity) this.ah.push(null);
    while (this.outside.length < capacity) this.outside.push(null);
    this.addr = keep(new Float64Array(capacity), this.addr);
    this.rest = keep(new Float64Array(capacity), this.rest);
    this.readyNs = keep(new Float64Array(capacity), this.readyNs);
    this.next = keep(new Int32Array(capacity), this.next);
    this.bytes = keep(new Uint8Array(capacity * SLAB_BYTES), this.bytes);
    this.words = new Uint32Array(this.bytes.buffer);
    this.free = keep(new Int32Array(capacity), this.free);
    for (let i = old; i < capacity; i++) this.free[i] = i;
    this.views = Array.from({ length: capacity }, (_, i) =>
      this.bytes.subarray(i * SLAB_BYTES, (i + 1) * SLAB_BYTES),
    );
    this.parts = this.views.slice();
    this.capacity = capacity;
  }
}
