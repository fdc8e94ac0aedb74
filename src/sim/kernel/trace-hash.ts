/**
 * A running hash over (time, kind, qp, psn) of every packet and completion. PSNs count from the first of the
 * connection.
 */

export const TRACE_PACKET = 1;
export const TRACE_LOST = 2;
export const TRACE_ACK = 3;
export const TRACE_COMPLETION = 4;
/** A congestion notification, by the queue pair that sends it. */
export const TRACE_CNP = 5;

// A name of its own keeps the bytecode below so short that V8 always inlines it.
const imul = Math.imul;

export class Trace {
  /** [0] entries so far; stored as a double from the start. */
  private readonly counts = new Float64Array(1);
  /** The clock as two words. Signed, because V8 allocates an unsigned word passed to a function. */
  private readonly timeWords: Int32Array;
  /** The low and the high word of the hash: two FNV-like lanes with different multipliers. */
  private readonly lanes = Int32Array.of(0x811c9dc5, 0x1b873593);

  constructor(clock: Float64Array) {
    this.timeWords = new Int32Array(clock.buffer);
  }

  get entries(): number {
    return this.counts[0];
  }

  add(kind: number, qp: number, psn: number): void {
    const { timeWords, lanes } = this;
    this.counts[0]++;
    const early = timeWords[0];
    const late = timeWords[1];
    const what = (kind << 24) ^ qp;
    lanes[0] = mixLow(mixLow(mixLow(mixLow(lanes[0] ^ early) ^ late) ^ what) ^ psn);
    lanes[1] = mixHigh(mixHigh(mixHigh(mixHigh(lanes[1] ^ early) ^ late) ^ what) ^ psn);
  }

  /** The hash as sixteen hexadecimal digits. */
  hash(): string {
    const hex = (word: number) => (word >>> 0).toString(16).padStart(8, '0');
    return hex(this.lanes[1]) + hex(this.lanes[0]);
  }
}

function mixLow(word: number): number {
  const product = imul(word, 0x01000193);
  return product ^ (product >>> 15);
}

function mixHigh(word: number): number {
  const product = imul(word, 0x5bd1e995);
  return product ^ (product >>> 13);
}
