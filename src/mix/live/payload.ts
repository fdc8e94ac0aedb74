/**
 * The bytes of one queue pair's messages. Each message that may be outstanding has a buffer at its source and one at
 * its destination. Its first and last byte are the round (how often the buffer has been used), so that a late, torn or
 * stale message is found at its completion. The bytes between are noise, which is compared at the end of the run.
 */
import type { MemoryRegion } from '../../objects/index.ts';
import type { MessageBuffers } from './spec.ts';

/** The maximum number of reported mismatches. */
const MAX_REPORTED = 4;

/** The memory of both ends, and which part of it belongs to the queue pair. */
export interface PayloadMemory {
  readonly from: MemoryRegion;
  readonly to: MemoryRegion;
  readonly index: number;
  /** Whether `from` is a counter of atomics, which starts at 0 instead of noise. */
  readonly isCounter: boolean;
}

export class Payload {
  private readonly buffers: MessageBuffers;
  private readonly from: Uint8Array;
  private readonly to: Uint8Array;
  /** By source buffer: length of its last message. */
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

  /** Prepares message number `n` for posting. */
  stamp(n: number, bytes: number): void {
    const { buffers, from } = this;
    const index = n % buffers.from;
    const at = index * buffers.fromBytes;
    this.lengths[index] = bytes;
    from[at] = this.round(n);
    from[at + bytes - 1] = from[at];
  }

  /** Length of the message that was last stamped in the buffer of message `n`. */
  bytesOf(n: number): number {
    return this.lengths[n % this.buffers.from];
  }

  /** The bytes of message `n` at its source. */
  message(n: number): Uint8Array {
    const at = (n % this.buffers.from) * this.buffers.fromBytes;
    return this.from.subarray(at, at + this.bytesOf(n));
  }

  /** Checks the first and last byte of message `n`, which has completed. */
  check(n: number, bytes: number): void {
    const { buffers, to } = this;
    const at = (n % buffers.to) * buffers.toBytes + buffers.headerBytes;
    const round = this.round(n);
    if (to[at] === round && to[at + bytes - 1] === round) return;
    this.report(
      `message ${n} of ${bytes} bytes begins with round ${to[at]} and ends with ${to[at + bytes - 1]}, not ${round}`,
    );
  }

  /** Compares the last messages byte by byte. @param count messages in all */
  compareLast(count: number): void {
    const { buffers } = this;
    for (let n = Math.max(0, count - buffers.from); n < count; n++) {
      const at = (n % buffers.to) * buffers.toBytes + buffers.headerBytes;
      const bytes = this.bytesOf(n);
      if (Buffer.compare(this.message(n), this.to.subarray(at, at + bytes)) === 0) continue;
      this.report(`message ${n} of ${bytes} bytes arrived with wrong bytes`);
    }
  }

  /** Checks that fetch-and-add number `n` found the sum of those before it. */
  checkAtomic(n: number): void {
    const at = (n % this.buffers.to) * this.buffers.toBytes;
    const { to } = this;
    const found = (to[at] | (to[at + 1] << 8) | (to[at + 2] << 16) | (to[at + 3] << 24)) >>> 0;
    if (found !== n >>> 0) this.report(`fetch-and-add ${n} found ${found}`);
  }

  private round(n: number): number {
    return (Math.floor(n / this.buffers.from) + 1) & 0xff;
  }

  private report(sentence: string): void {
    if (this.mismatches.length < MAX_REPORTED) this.mismatches.push(sentence);
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
