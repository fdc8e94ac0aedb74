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

export class Trace {
  /** [0] entries so far; stored as a double from the start. */
  private readonly counts = new Float64Array(1);
  /** The clock as two words. Signed, because V8 allocates an unsigned word passed to a function. */
  private readonly timeWords: Int32Array;
  private lo = 0x811c9dc5 | 0;
  private hi = 0x1b873593 | 0;

  constructor(clock: Float64Array) {
    this.timeWords = new Int32Array(clock.buffer);
  }

  get entries(): number {
    return this.counts[0];
  }

  add(kind: number, qp: number, psn: number): void {
    this.mix(this.timeWords[0]);
    this.mix(this.timeWords[1]);
    this.mix((kind << 24) ^ qp);
    this.mix(psn);
    this.counts[0]++;
  }

  /** The hash as sixteen hexadecimal digits. */
  hash(): string {
    const hex = (word: number) => (word >>> 0).toString(16).padStart(8, '0');
    return hex(this.hi) + hex(this.lo);
  }

  /** Two FNV-like lanes with different multipliers. */
  private mix(word: number): void {
    this.lo = Math.imul(this.lo ^ word, 0x01000193);
    this.lo ^= this.lo >>> 15;
    this.hi = Math.imul(this.hi ^ word, 0x5bd1e995);
    this.hi ^= this.hi >>> 13;
  }
}
