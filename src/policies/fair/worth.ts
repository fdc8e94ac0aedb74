/**
 * Finds out whether scheduling a device helps. From time to time, the device is treated the other way for a few
 * milliseconds: left alone if it is scheduled, scheduled if it is left alone. Scheduling helps if it shortens the
 * latency of short messages by a larger factor than it lowers the throughput.
 */
import { Judge } from './judge.ts';
import { PART, REFERENCE_NS, SHORT_NS, STANCE, Stance } from './stance.ts';

/** Time between two trials, and the shorter time that applies until two trials in a row have agreed. */
const PERIOD_NS = 500e6;
const FIRST_PERIOD_NS = 100e6;
/** Length of a measurement. It is extended, up to this many times the length, until it has this many latencies. */
const UNIT_NS = 2.5e6;
const MOST_UNITS = 8;
const LATENCIES = 8;
/** Scheduling must shorten latencies to less than this part to be worth anything. */
const SHORTENED = 0.9;

/** What is being done. */
const IDLE = 0;
const REST = 1;
/** Measures as it is; after that, waits until what was sent before the change has left the device, and measures again. */
const CONTROL = 2;
const SETTLING = 3;
const TRIAL = 4;

/** What was measured in one way of treating the device. */
interface Measured {
  meanNs: number;
  perNs: number;
}

/** The judge of one device. */
export class Worth extends Judge {
  /** Differs from `isWorth` during a trial. */
  isOn: boolean;
  readonly level = 0;
  private readonly isPresumed: boolean;
  private isWorth: boolean;
  private phase = IDLE;
  /** Trials in a row that disagreed with, and agreed with, what is done. */
  private against = 0;
  private agreed = 0;
  private control: Measured = { meanNs: 0, perNs: 0 };
  /** When the phase began, and what had been sent by then. */
  private readonly since = Float64Array.of(0, 0);
  /** Sum and number of latencies. */
  private readonly latencies = new Float64Array(2);

  /** @param isOn whether scheduling is presumed to help */
  constructor(isOn: boolean) {
    super();
    this.isPresumed = isOn;
    this.isOn = isOn;
    this.isWorth = isOn;
    this.presume();
  }

  /** Forgets what trials have shown. */
  private presume(): void {
    this.isOn = this.isWorth = this.isPresumed;
    this.against = this.agreed = 0;
    this.stance[STANCE] = this.isPresumed ? Stance.SCHEDULED : Stance.ONE_AT_A_TIME;
  }

  get isPlanned(): boolean {
    return this.phase !== IDLE;
  }

  get isAside(): boolean {
    return !this.isOn && (this.phase === REST || this.phase === IDLE);
  }

  get isResting(): boolean {
    return this.isOn && this.phase === REST;
  }

  get wantsTime(): boolean {
    return !this.isTiming && (this.phase === CONTROL || this.phase === TRIAL);
  }

  plan(nowNs: number): number {
    this.enter(REST, nowNs, 0);
    return nowNs + FIRST_PERIOD_NS;
  }

  protected took(ns: number): boolean {
    this.latencies[0] += ns;
    this.latencies[1]++;
    return false;
  }

  /** Begins and ends trials. */
  onTimer(nowNs: number, sentBytes: number, isContended: boolean): number {
    const [sinceNs, before] = this.since;
    if (this.phase === REST) {
      if (sentBytes === before) return this.stop();
      // Where nothing waits, trials are decided by chance, and what earlier ones have shown may no longer hold.
      if (!isContended && this.isWorth !== this.isPresumed) this.presume();
      return this.enter(isContended ? CONTROL : REST, nowNs, sentBytes);
    }
    if (this.phase === SETTLING) return this.enter(TRIAL, nowNs, sentBytes);
    const isLong = nowNs - sinceNs >= MOST_UNITS * UNIT_NS;
    if (this.latencies[1] < LATENCIES && !isLong) return nowNs + UNIT_NS;
    const measured = this.measured(nowNs, sentBytes);
    if (this.phase === TRIAL) {
      this.judge(measured);
      return this.enter(REST, nowNs, sentBytes);
    }
    // Without short messages, there is nothing to protect, and without others nothing to protect them from.
    if (measured === null) return this.enter(REST, nowNs, sentBytes);
    this.control = measured;
    this.isOn = !this.isWorth;
    return this.enter(SETTLING, nowNs, sentBytes);
  }

  private stop(): number {
    this.phase = IDLE;
    return Number.POSITIVE_INFINITY;
  }

  private enter(phase: number, nowNs: number, sentBytes: number): number {
    this.phase = phase;
    this.since[0] = nowNs;
    this.since[1] = sentBytes;
    this.latencies.fill(0);
    this.stopTiming();
    if (phase !== REST) return nowNs + UNIT_NS;
    return nowNs + (this.agreed < 2 ? FIRST_PERIOD_NS : PERIOD_NS);
  }

  /** Null if too few short messages completed. One that has not completed yet counts with the time that it has taken. */
  private measured(nowNs: number, sentBytes: number): Measured | null {
    if (this.isTiming) this.completed(nowNs);
    const [sumNs, count] = this.latencies;
    if (count === 0) return null;
    return { meanNs: sumNs / count, perNs: (sentBytes - this.since[1]) / (nowNs - this.since[0]) };
  }

  private judge(trial: Measured | null): void {
    this.isOn = this.isWorth;
    if (trial === null) return;
    const [on, off] = this.isWorth ? [this.control, trial] : [trial, this.control];
    const shortened = on.meanNs / off.meanNs;
    const helps = shortened < SHORTENED && shortened < on.perNs / off.perNs;
    const { stance } = this;
    stance[SHORT_NS] = on.meanNs;
    stance[REFERENCE_NS] = off.meanNs;
    stance[PART] = on.perNs / off.perNs;
    this.against = helps === this.isWorth ? 0 : this.against + 1;
    this.agreed = helps === this.isWorth ? this.agreed + 1 : 0;
    if (this.against === 2) {
      this.isWorth = this.isOn = helps;
      this.against = 0;
    }
    stance[STANCE] = this.isWorth ? Stance.HELPS : Stance.LEFT_ALONE;
  }
}
