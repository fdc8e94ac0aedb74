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
  /** The low and the high word of the hash, and the words of an entry. */
  private readonly lanes = Int32Array.of(0x811c9dc5, 0x1b873593, 0, 0, 0, 0);

  constructor(clock: Float64Array) {
    this.timeWords = new Int32Array(clock.buffer);
  }

  get entries(): number {
    return this.counts[0];
  }

  add(kind: number, qp: number, psn: number): void {
    const { timeWords, lanes } = this;
    this.counts[0]++;
    lanes[2] = timeWords[0];
    lanes[3] = timeWords[1];
    lanes[4] = (kind << 24) ^ qp;
    lanes[5] = psn;
    // Two FNV-like lanes with different multipliers.
    let lo = lanes[0];
    let hi = lanes[1];
    for (let i = 2; i < 6; i++) {
      lo = Math.imul(lo ^ lanes[i], 0x01000193);
      lo ^= lo >>> 15;
      hi = Math.imul(hi ^ lanes[i], 0x5bd1e995);
      hi ^= hi >>> 13;
    }
    lanes[0] = lo;
    lanes[1] = hi;
  }

  /** The hash as sixteen hexadecimal digits. */
  hash(): string {
    const hex = (word: number) => (word >>> 0).toString(16).padStart(8, '0');
    return hex(this.lanes[1]) + hex(this.lanes[0]);
  }
}
