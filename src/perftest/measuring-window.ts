/** The measured part of a run: all of it, or with --duration the time between the margins. */
import type { Settings } from './settings.ts';

/**
 * ended() reads the clock only once in this many calls (a power of 2), since a reading costs more than an empty poll.
 */
const CALLS_PER_CLOCK_READ = 16;
/** 0.3 s contain three intervals of 0.1 s, although the quotient of the two numbers is slightly less than 3. */
const ROUNDING = 1e-9;

export class MeasuringWindow {
  /** Messages counted. */
  messages = 0;
  /** Start and end of the measured time. */
  fromNs: number;
  toNs: number;
  readonly byTime: boolean;
  /** Messages of each complete interval of the measured time; empty without --interval. */
  readonly intervals: Float64Array;
  /** Length of an interval; infinite without --interval. */
  readonly intervalNs: number;
  private readonly durationNs: number;
  private readonly marginNs: number;
  private endNs: number;
  private calls = 0;

  constructor({ durationS, marginS, run_infinitely, interval }: Settings, nowNs: number) {
    this.marginNs = run_infinitely ? 0 : marginS * 1e9;
    this.durationNs = durationS * 1e9;
    this.byTime = durationS > 0;
    this.fromNs = nowNs + this.marginNs;
    this.endNs = nowNs + this.durationNs;
    this.toNs = this.byTime ? this.endNs - this.marginNs : nowNs;
    this.intervalNs = interval === undefined ? Number.POSITIVE_INFINITY : interval * 1e9;
    this.intervals = new Float64Array(Math.floor((this.toNs - this.fromNs) / this.intervalNs + ROUNDING));
  }

  /** Starts a new measurement of the same length. */
  restart(nowNs: number): void {
    this.messages = 0;
    this.fromNs = nowNs + this.marginNs;
    this.endNs = nowNs + this.durationNs;
    this.toNs = this.endNs - this.marginNs;
  }

  /** Whether a run with --duration is over. The result may lag by some calls, in which nothing is counted. */
  ended(clock: { nowNs(): number }): boolean {
    if (!this.byTime || (++this.calls & (CALLS_PER_CLOCK_READ - 1)) !== 0) return false;
    return clock.nowNs() >= this.endNs;
  }

  count(messages: number, nowNs: number): void {
    if (!this.byTime) this.toNs = nowNs;
    else if (nowNs < this.fromNs || nowNs >= this.toNs) return;
    this.messages += messages;
    if (this.intervals.length === 0) return;
    const interval = Math.floor((nowNs - this.fromNs) / this.intervalNs);
    if (interval < this.intervals.length) this.intervals[interval] += messages;
  }
}
