/**
 * The bytes of one queue pair's messages. Each message that may be outstanding has a slot at the end that it comes
 * from and one at the end that it goes to. Its first and its last byte are the round of its slot, so that a message
 * that is late, torn or of an earlier round shows at its completion; the bytes between are noise, looked at last.
 */
import type { MemoryRegion } from '../../objects/index.ts';
import type { Slots } from './spec.ts';

/** Sentences about what is wrong: the first few say it. */
const MOST_SENTENCES = 4;

/** The two ends, and which part of them. */
export interface PayloadEnds {
  readonly from: MemoryRegion;
  readonly to: MemoryRegion;
  readonly index: number;
  /** Whether `from` is counted in: it begins with 0 then, not with noise. */
  readonly isCounter: boolean;
}

export class Payload {
  private readonly slots: Slots;
  private readonly from: Uint8Array;
  private readonly to: Uint8Array;
  /** By slot at the sending end: bytes of its last message. */
  private readonly lengths: Uint32Array;
  private readonly wrong: string[];

  constructor(slots: Slots, { from, to, index, isCounter }: PayloadEnds, wrong: string[]) {
    this.slots = slots;
    this.from = partOf(from, index, slots.from * slots.fromBytes);
    this.to = partOf(to, index, slots.to * slots.toBytes);
    this.lengths = new Uint32Array(slots.from).fill(slots.fromBytes);
    this.wrong = wrong;
    if (!isCounter) noise(this.from, index);
  }

  /** Message number `n` is about to be posted. */
  stamp(n: number, bytes: number): void {
    const { slots, from } = this;
    const slot = n % slots.from;
    const at = slot * slots.fromBytes;
    this.lengths[slot] = bytes;
    from[at] = this.round(n);
    from[at + bytes - 1] = from[at];
  }

  /** Bytes of the message that was last stamped in the slot of `n`. */
  bytesOf(n: number): number {
    return this.lengths[n % this.slots.from];
  }

  /** The bytes of message `n` at the sending end. */
  message(n: number): Uint8Array {
    const at = (n % this.slots.from) * this.slots.fromBytes;
    return this.from.subarray(at, at + this.bytesOf(n));
  }

  /** Message number `n` is said to have arrived. */
  check(n: number, bytes: number): void {
    const { slots, to } = this;
    const at = (n % slots.to) * slots.toBytes + slots.headBytes;
    const round = this.round(n);
    if (to[at] === round && to[at + bytes - 1] === round) return;
    this.tell(`message ${n} of ${bytes} bytes has round ${to[at]} to ${to[at + bytes - 1]}, not ${round}`);
  }

  /** All are over: the last messages, byte by byte. `count`: how many there were. */
  compare(count: number): void {
    const { slots } = this;
    for (let n = Math.max(0, count - slots.from); n < count; n++) {
      const at = (n % slots.to) * slots.toBytes + slots.headBytes;
      const bytes = this.bytesOf(n);
      if (Buffer.compare(this.message(n), this.to.subarray(at, at + bytes)) === 0) continue;
      this.tell(`message ${n} of ${bytes} bytes arrived with other bytes`);
    }
  }

  /** Fetch-and-add number `n` found what those before it left. */
  checkAtomic(n: number): void {
    const at = (n % this.slots.to) * this.slots.toBytes;
    const { to } = this;
    const found = (to[at] | (to[at + 1] << 8) | (to[at + 2] << 16) | (to[at + 3] << 24)) >>> 0;
    if (found !== n >>> 0) this.tell(`fetch and add ${n} found ${found}`);
  }

  private round(n: number): number {
    return (Math.floor(n / this.slots.from) + 1) & 0xff;
  }

  private tell(sentence: string): void {
    if (this.wrong.length < MOST_SENTENCES) this.wrong.push(sentence);
  }
}

function partOf(mr: MemoryRegion, index: number, bytes: number): Uint8Array {
  return mr.bytes.subarray(index * bytes, (index + 1) * bytes);
}

function noise(bytes: Uint8Array, seed: number): void {
  let state = (seed + 1) * 0x9e3779b1;
  for (let i = 0; i < bytes.length; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    bytes[i] = state;
  }
}
