/** Which part of a run counts: all of it, or by time what is within the margins. */
import type { Settings } from './settings.ts';

/** A look at the clock costs more than a poll that finds nothing: of so many looks one is real (a power of 2). */
const CALLS_PER_CLOCK_READ = 16;

export class MeasuringWindow {
  /** Messages that count. */
  messages = 0;
  /** From when to when they count. */
  fromNs: number;
  toNs: number;
  readonly byTime: boolean;
  private readonly durationNs: number;
  private readonly marginNs: number;
  private endNs: number;
  private calls = 0;

  constructor({ durationS, marginS, run_infinitely }: Settings, nowNs: number) {
    this.marginNs = run_infinitely ? 0 : marginS * 1e9;
    this.durationNs = durationS * 1e9;
    this.byTime = durationS > 0;
    this.fromNs = nowNs + this.marginNs;
    this.endNs = nowNs + this.durationNs;
    this.toNs = this.byTime ? this.endNs - this.marginNs : nowNs;
  }

  /** Counts again, as long as before. */
  restart(nowNs: number): void {
    this.messages = 0;
    this.fromNs = nowNs + this.marginNs;
    this.endNs = nowNs + this.durationNs;
    this.toNs = this.endNs - this.marginNs;
  }

  /** By time, and the time is over; seen some looks late, when nothing counts any more. */
  ended(clock: { nowNs(): number }): boolean {
    if (!this.byTime || (++this.calls & (CALLS_PER_CLOCK_READ - 1)) !== 0) return false;
    return clock.nowNs() >= this.endNs;
  }

  count(messages: number, nowNs: number): void {
    if (!this.byTime) this.toNs = nowNs;
    else if (nowNs < this.fromNs || nowNs >= this.toNs) return;
    this.messages += messages;
  }
}
