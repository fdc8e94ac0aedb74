/**
 * System time of Tassel (3.1.2): it runs with the clock, and slower when the rates of the active queue pairs exceed
 * the link. Fixed point: whole ticks, and a fraction of 32 bits. Both are integers that a double holds exactly, for
 * 2^53 ticks.
 */

/** One tick in units of the fraction. */
export const FRACTION = 4294967296;

/** Ticks advanced at once, so that the product with a step stays exact. */
const MOST_TICKS = 1 << 17;

// Indexes of a point in time.
export const WHOLE = 0;
export const PART = 1;

/** Whether the point in time at index `i` of `a` is after the one at index `j` of `b`. */
export function isAfter(a: Float64Array, i: number, b: Float64Array, j: number): boolean {
  return a[i] > b[j] || (a[i] === b[j] && a[i + PART] > b[j + PART]);
}

/** The system time of one link, and the oversubscription factor Phi that slows it down. */
export class SystemTime {
  /** [WHOLE] ticks and [PART] of a tick, in units of 2^-32. */
  readonly now = new Float64Array(2);
  private readonly linkBps: number;
  /** Sum of the rates of active queue pairs, in bit/s. */
  private activeBps = 0;
  /** Advance of system time in one tick, in units of the fraction. */
  private step = FRACTION;
  /** 1 / max(1, Phi), in units of the fraction. */
  private slowdown = FRACTION;

  /** @param linkBps capacity of the link, in bit/s */
  constructor(linkBps: number) {
    this.linkBps = linkBps;
  }

  /** Sum of the rates of the active queue pairs, relative to the link. */
  get phi(): number {
    return this.activeBps / this.linkBps;
  }

  /** A queue pair becomes active (positive rate) or inactive (negative), or its rate changes (difference). In bit/s. */
  addRate(bps: number): void {
    this.activeBps += bps;
    const phi = Math.max(1, this.activeBps / this.linkBps);
    this.slowdown = Math.floor(FRACTION / phi);
    this.step = this.stepOf(phi);
  }

  /**
   * Advance in one tick at max(1, Phi). The paper prints a multiplication. Its text and its activation time require
   * this division: otherwise queue pairs that were active before starve those that join during oversubscription.
   */
  protected stepOf(phi: number): number {
    return Math.floor(FRACTION / phi);
  }

  /** Lets a whole number of ticks pass. The result does not depend on how they are divided over calls. */
  advance(ticks: number): void {
    const { now } = this;
    if (this.step === FRACTION) {
      now[WHOLE] += ticks;
      return;
    }
    for (let left = ticks; left > 0; left -= MOST_TICKS) {
      const fraction = now[PART] + Math.min(left, MOST_TICKS) * this.step;
      const carry = Math.floor(fraction / FRACTION);
      now[WHOLE] += carry;
      now[PART] = fraction - carry * FRACTION;
    }
  }

  /** Writes `now` plus `ticks / max(1, Phi)` to index `i` of `out`: the end of a period of so many ticks. */
  after(ticks: number, out: Float64Array, i: number): void {
    const fraction = this.now[PART] + ticks * this.slowdown;
    const carry = Math.floor(fraction / FRACTION);
    out[i] = this.now[WHOLE] + carry;
    out[i + PART] = fraction - carry * FRACTION;
  }

  /**
   * Ticks that certainly pass before system time reaches the point at index `i` of `point`; 0 when it has. The exact
   * number is at most 2 more while Phi is at most 1, and otherwise grows with the distance in proportion of 2^-50.
   */
  ticksBefore(point: Float64Array, i: number): number {
    const whole = point[i] - this.now[WHOLE];
    const distance = whole * FRACTION + (point[i + PART] - this.now[PART]);
    if (distance <= 0) return 0;
    return Math.max(0, Math.floor((distance / this.step) * (1 - 2 ** -50)) - 1);
  }

  /** Ticks until system time reaches the point at index `i` of `point`; of a long span, perhaps a few less. */
  ticksUntil(point: Float64Array, i: number): number {
    let ticks = this.ticksBefore(point, i);
    if (ticks > MOST_TICKS) return ticks;
    const distance = (point[i] - this.now[WHOLE]) * FRACTION + (point[i + PART] - this.now[PART]);
    while (ticks * this.step < distance) ticks++;
    return ticks;
  }
}
