/**
 * Start and finish times of packets (WF2Q+; Tassel, figure 1): the next packet of a queue pair starts when the
 * previous one finishes at the rate of the queue pair, or now if the queue pair was idle for longer.
 */
import { fitColumn } from '../../shim/tables.ts';
import { FRACTION, isAfter, PART, type SystemTime, WHOLE } from './system-time.ts';

/** Duration of a tick: one clock at 250 MHz. */
export const TICK_NS = 4;

/** Rates and finish times of queue pairs, by number. */
export class FlowTags {
  /** In bit/s, whole numbers. */
  rateBps: Float64Array;
  /** Finish time of the latest packet of queue pair q, at index 2q: the start time of the next one. */
  finish: Float64Array;
  private readonly time: SystemTime;

  constructor(queuePairs: number, time: SystemTime) {
    this.time = time;
    this.rateBps = new Float64Array(queuePairs);
    this.finish = new Float64Array(2 * queuePairs);
  }

  /** Makes room for a queue pair. */
  fit(qp: number): void {
    this.rateBps = fitColumn(this.rateBps, qp);
    this.finish = fitColumn(this.finish, 2 * qp + PART);
  }

  /** Whether the next packet may start now. */
  isEligible(qp: number): boolean {
    return !isAfter(this.finish, 2 * qp, this.time.now, WHOLE);
  }

  /** An idle queue pair has a packet again, which does not start before now. */
  begin(qp: number): void {
    const { finish } = this;
    const { now } = this.time;
    const i = 2 * qp;
    if (isAfter(finish, i, now, WHOLE)) return;
    finish[i] = now[WHOLE];
    finish[i + PART] = now[PART];
  }

  /** A packet of this many bytes follows the latest one. */
  charge(qp: number, bytes: number): void {
    const rate = this.rateBps[qp];
    // Exact up to 4 MB: 8 bit in a byte, 10^9 ns in a second.
    const nsTimesRate = (bytes * 8e9) / TICK_NS;
    const whole = Math.floor(nsTimesRate / rate);
    this.add(2 * qp, whole, Math.floor(((nsTimesRate - whole * rate) / rate) * FRACTION));
  }

  /**
   * Forgives what a queue pair is behind its rate by more than this many ticks after a packet. WF2Q+ delays no packet
   * longer than until its finish time and the end of one more packet: something else held back the queue pair.
   */
  limitLag(qp: number, ticks: number): void {
    const { finish } = this;
    const { now } = this.time;
    const i = 2 * qp;
    if (finish[i] >= now[WHOLE] - ticks) return;
    finish[i] = now[WHOLE] - ticks;
    finish[i + PART] = now[PART];
  }

  /**
   * Changes the rate. What the latest packet still takes of its time is rescaled, F' = T + (F - T) x old / new, because
   * a queue pair that becomes faster would otherwise wait for a packet time at the old rate.
   */
  setRate(qp: number, bps: number): void {
    const { finish } = this;
    const { now } = this.time;
    const i = 2 * qp;
    const ratio = this.rateBps[qp] / bps;
    this.rateBps[qp] = bps;
    if (!isAfter(finish, i, now, WHOLE)) return;
    const left = (finish[i] - now[WHOLE] + (finish[i + PART] - now[PART]) / FRACTION) * ratio;
    const whole = Math.floor(left);
    finish[i] = now[WHOLE];
    finish[i + PART] = now[PART];
    this.add(i, whole, Math.floor((left - whole) * FRACTION));
  }

  private add(i: number, whole: number, part: number): void {
    const { finish } = this;
    const fraction = finish[i + PART] + part;
    const carry = fraction >= FRACTION ? 1 : 0;
    finish[i] += whole + carry;
    finish[i + PART] = fraction - carry * FRACTION;
  }
}
