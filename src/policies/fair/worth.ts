/**
 * Finds out whether scheduling a device helps. From time to time, it is done the other way for a few milliseconds: not at
 * all, if it is done, and the reverse. Scheduling helps if it shortens the latency of short messages by a larger factor
 * than it lowers the throughput.
 */
import {
  COMPARED,
  LEFT_ALONE,
  NOT_COMPARED,
  ONE_AT_A_TIME,
  PLAIN_NS,
  REASON,
  SCHEDULED,
  SCHEDULED_NS,
  SENT_PART,
  STANCE,
  STANCE_NUMBERS,
} from './stance.ts';

/** Time between two trials; between the first ones, until two in a row have agreed, less. */
const PERIOD_NS = 500e6;
const FIRST_PERIOD_NS = 100e6;
/** Length of a measurement, which is extended up to the most for so many latencies. */
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

/** The judgement on one device. */
export class Worth {
  /** Whether to schedule the device now; differs from `isWorth` during a trial. */
  isOn: boolean;
  /** What is done apart from trials, and the last judgement: see stance.ts. */
  readonly stance = new Float64Array(STANCE_NUMBERS);
  private isWorth: boolean;
  private phase = IDLE;
  /** Trials in a row that disagreed with, and agreed with, what is done. */
  private against = 0;
  private agreed = 0;
  private control: Measured = { meanNs: 0, perNs: 0 };
  /** When the phase began, and what had been sent by then. */
  private readonly since = Float64Array.of(0, 0);
  /** Sum and number of latencies, and when the message that is being timed was sent. */
  private readonly latencies = new Float64Array(3);
  /** The queue pair with a message that is being timed; -1: none. */
  private timed = -1;

  /** @param isOn whether scheduling is presumed to help */
  constructor(isOn: boolean) {
    this.isOn = isOn;
    this.isWorth = isOn;
    this.stance[REASON] = isOn ? NOT_COMPARED : ONE_AT_A_TIME;
    this.stance[SENT_PART] = 1;
    this.settle(isOn);
  }

  /** Whether the next trial has a date. */
  get isPlanned(): boolean {
    return this.phase !== IDLE;
  }

  /** Whether the device is left alone, and nothing is measured. */
  get isAside(): boolean {
    return !this.isOn && this.phase === REST;
  }

  /** Whether a short message on an idle queue pair is to be timed. */
  get wantsTime(): boolean {
    return this.timed < 0 && (this.phase === CONTROL || this.phase === TRIAL);
  }

  /** Traffic begins. Returns when to call `onTimer`. */
  plan(nowNs: number): number {
    this.enter(REST, nowNs, 0);
    return nowNs + FIRST_PERIOD_NS;
  }

  /** A short message was sent on a queue pair with nothing else in flight. */
  time(qp: number, nowNs: number): void {
    this.timed = qp;
    this.latencies[2] = nowNs;
  }

  isTimed(qp: number): boolean {
    return this.timed === qp;
  }

  /** The message that was being timed has completed. */
  completed(nowNs: number): void {
    this.latencies[0] += nowNs - this.latencies[2];
    this.latencies[1]++;
    this.timed = -1;
  }

  /** The queue pair was destroyed or modified. */
  cancel(qp: number): void {
    if (this.timed === qp) this.timed = -1;
  }

  /**
   * Begins and ends trials. Returns when to call it again; Infinity: not before `plan`.
   * @param sentBytes what all have sent
   * @param isContended whether requests wait, so that scheduling makes a difference
   */
  onTimer(nowNs: number, sentBytes: number, isContended: boolean): number {
    const [sinceNs, before] = this.since;
    if (this.phase === REST) {
      if (sentBytes === before) return this.stop();
      return this.enter(isContended || !this.isOn ? CONTROL : REST, nowNs, sentBytes);
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
    this.timed = -1;
    if (phase !== REST) return nowNs + UNIT_NS;
    return nowNs + (this.agreed < 2 ? FIRST_PERIOD_NS : PERIOD_NS);
  }

  /** Null if too few short messages completed. One that has not completed yet counts with the time that it has taken. */
  private measured(nowNs: number, sentBytes: number): Measured | null {
    if (this.timed >= 0) this.completed(nowNs);
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
    stance[REASON] = COMPARED;
    stance[SCHEDULED_NS] = on.meanNs;
    stance[PLAIN_NS] = off.meanNs;
    stance[SENT_PART] = on.perNs / off.perNs;
    this.against = helps === this.isWorth ? 0 : this.against + 1;
    this.agreed = helps === this.isWorth ? this.agreed + 1 : 0;
    if (this.against < 2) return;
    this.settle(helps);
    this.against = 0;
  }

  private settle(isWorth: boolean): void {
    this.isWorth = this.isOn = isWorth;
    this.stance[STANCE] = isWorth ? SCHEDULED : LEFT_ALONE;
  }
}
