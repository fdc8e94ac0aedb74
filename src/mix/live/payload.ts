/**
 * The bytes of one queue pair's messages. Each message that may be outstanding has a slot at the end that it comes
 * from and one at the end that it goes to. Its first and its last byte are the round of its slot, so that a message
 * that is late, torn or of an earlier round shows at its completion; the bytes between are noise, looked at last.
 */
import type { MemoryRegion } from '../../objects/index.ts';
import type { MessageBuffers } from './spec.ts';

/** Sentences about what is wrong: the first few say it. */
const MAX_MESSAGES = 4;

/** The two ends, and which part of them. */
export interface PayloadMemory {
  readonly from: MemoryRegion;
  readonly to: MemoryRegion;
  readonly index: number;
  /** Whether `from` is counted in: it begins with 0 then, not with noise. */
  readonly isCounter: boolean;
}

export class Payload {
  private readonly buffers: MessageBuffers;
  private readonly from: Uint8Array;
  private readonly to: Uint8Array;
  /** By slot at the sending end: bytes of its last message. */
  private readonly lengths: Uint32Array;
  private readonly mismatches: string[];

  constructor(buffers: MessageBuffers, { from, to, index, isCounter }: PayloadMemory, wrong: string[]) {
    this.buffers = buffers;
    this.from = sliceOf(from, index, buffers.from * buffers.fromBytes);
    this.to = sliceOf(to, index, buffers.to * buffers.toBytes);
    this.lengths = new Uint32Array(buffers.from).fill(buffers.fromBytes);
    this.mismatches = wrong;
    if (!isCounter) fillWithNoise(this.from, index);
  }

  /** Message number `n` is about to be posted. */
  stamp(n: number, bytes: number): void {
    const { buffers, from } = this;
    const slot = n % buffers.from;
    const at = slot * buffers.fromBytes;
    this.lengths[slot] = bytes;
    from[at] = this.round(n);
    from[at + bytes - 1] = from[at];
  }

  /** Bytes of the message that was last stamped in the slot of `n`. */
  bytesOf(n: number): number {
    return this.lengths[n % this.buffers.from];
  }

  /** The bytes of message `n` at the sending end. */
  message(n: number): Uint8Array {
    const at = (n % this.buffers.from) * this.buffers.fromBytes;
    return this.from.subarray(at, at + this.bytesOf(n));
  }

  /** Message number `n` is said to have arrived. */
  check(n: number, bytes: number): void {
    const { buffers, to } = this;
    const at = (n % buffers.to) * buffers.toBytes + buffers.headerBytes;
    const round = this.round(n);
    if (to[at] === round && to[at + bytes - 1] === round) return;
    this.report(`message ${n} of ${bytes} bytes has round ${to[at]} to ${to[at + bytes - 1]}, not ${round}`);
  }

  /** All are over: the last messages, byte by byte. `count`: how many there were. */
  compareLast(count: number): void {
    const { buffers } = this;
    for (let n = Math.max(0, count - buffers.from); n < count; n++) {
      const at = (n % buffers.to) * buffers.toBytes + buffers.headerBytes;
      const bytes = this.bytesOf(n);
      if (Buffer.compare(this.message(n), this.to.subarray(at, at + bytes)) === 0) continue;
      this.report(`message ${n} of ${bytes} bytes arrived with other bytes`);
    }
  }

  /** Fetch-and-add number `n` found what those before it left. */
  checkAtomic(n: number): void {
    const at = (n % this.buffers.to) * this.buffers.toBytes;
    const { to } = this;
    const found = (to[at] | (to[at + 1] << 8) | (to[at + 2] << 16) | (to[at + 3] << 24)) >>> 0;
    if (found !== n >>> 0) this.report(`fetch and add ${n} found ${found}`);
  }

  private round(n: number): number {
    return (Math.floor(n / this.buffers.from) + 1) & 0xff;
  }

  private report(sentence: string): void {
    if (this.mismatches.length < MAX_MESSAGES) this.mismatches.push(sentence);
  }
}

function sliceOf(mr: MemoryRegion, index: number, bytes: number): Uint8Array {
  return mr.bytes.subarray(index * bytes, (index + 1) * bytes);
}

function fillWithNoise(bytes: Uint8Array, seed: number): void {
  let state = (seed + 1) * 0x9e3779b1;
  for (let i = 0; i < bytes.length; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    bytes[i] = state;
  }
}
