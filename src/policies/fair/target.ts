/**
 * Schedules a device just strictly enough for 99 % of short messages to take at most a given time (Justitia's target):
 * the level rises step by step while they take longer. If no level is enough, the target cannot be met, and nothing is
 * reduced.
 */
import { TailEstimator } from '../kit/tail-estimator.ts';
import { Judge } from './judge.ts';
import { PART, REFERENCE_NS, SHORT_NS, STANCE, Stance } from './stance.ts';
import { STRICTEST } from './strictness.ts';

/** Latencies of a measurement. Two of them may be longer than the percentile. */
const SAMPLES = 256;
const PERCENTILE = 99;
/**
 * Measurements in a row that must miss a target that was met at this level, before the level rises: a single one may be
 * a rare event.
 */
const MISSES = 2;
/**
 * Measurements in a row that must meet the target before a lower level is tried: twice as many after a try that failed,
 * half as many after one that succeeded.
 */
const PATIENCE = 16;
const MOST_PATIENCE = 256;
/** Measurements before a target that could not be met is tried again: twice as many after each failure. */
const REST = 256;
const MOST_REST = 8192;
/** Without short messages for this many periods, there is nothing to protect. */
const PERIOD_NS = 20e6;
const QUIET_PERIODS = 5;

/** The judge of a device with a target. */
export class Target extends Judge {
  readonly isOn: boolean;
  level = 0;
  isPlanned = false;
  private readonly targetNs: number;
  private readonly estimator = new TailEstimator({ windowSamples: SAMPLES, percentile: PERCENTILE });
  /** Measurements in a row that met the target, or missed it. */
  private met = 0;
  private missed = 0;
  /** Whether the target was met at this level, and whether the level has just begun. */
  private hasMet = false;
  private isNew = true;
  /** How many measurements in a row must meet the target before the level falls. */
  private patience = PATIENCE;
  /** Whether the last change was to a lower level. */
  private isTrying = false;
  /** Measurements that are left before the target is tried again, and how many there are after the next failure. */
  private resting = 0;
  private rest = REST;
  private quietPeriods = 0;
  private readonly seenBytes = new Float64Array(1);

  /** @param canSchedule whether scheduling the device can shorten anything */
  constructor(canSchedule: boolean, targetNs: number) {
    super();
    this.isOn = canSchedule;
    this.targetNs = targetNs;
    this.stance[STANCE] = canSchedule ? Stance.TARGET : Stance.ONE_AT_A_TIME;
    this.stance[REFERENCE_NS] = targetNs;
  }

  get isAside(): boolean {
    return !this.isOn;
  }

  /** A target is measured all the time. */
  get isResting(): boolean {
    return false;
  }

  get wantsTime(): boolean {
    return this.isOn && !this.isTiming;
  }

  plan(nowNs: number): number {
    this.isPlanned = true;
    this.quietPeriods = 0;
    return nowNs + PERIOD_NS;
  }

  onTimer(nowNs: number, sentBytes: number): number {
    if (++this.quietPeriods > QUIET_PERIODS && this.level > 0) this.enter(0);
    this.isPlanned = sentBytes !== this.seenBytes[0];
    this.seenBytes[0] = sentBytes;
    return this.isPlanned ? nowNs + PERIOD_NS : Number.POSITIVE_INFINITY;
  }

  protected took(ns: number): boolean {
    const { estimator, level } = this;
    this.quietPeriods = 0;
    estimator.add(ns);
    if (estimator.count < SAMPLES) return false;
    this.decide(estimator.valueNs());
    estimator.clear();
    return this.level !== level;
  }

  private decide(tailNs: number): void {
    // What was sent before the change may still have been in the way.
    if (this.isNew) {
      this.isNew = false;
      return;
    }
    const { stance } = this;
    const isMet = tailNs <= this.targetNs;
    stance[SHORT_NS] = tailNs;
    // What the messages took concerns the level at which they were sent.
    stance[PART] = this.level;
    stance[STANCE] = isMet ? Stance.TARGET_MET : Stance.TARGET_MISSED;
    this.met = isMet ? this.met + 1 : 0;
    this.missed = isMet ? 0 : this.missed + 1;
    this.hasMet ||= isMet;
    if (isMet) this.relax();
    else if (this.resting > 0) {
      this.resting--;
      stance[STANCE] = Stance.TARGET_IMPOSSIBLE;
    } else if (!this.hasMet || this.missed >= MISSES) this.tighten();
  }

  /** The target is met: after a while, less may be enough. */
  private relax(): void {
    if (this.isTrying) this.patience = Math.max(PATIENCE, this.patience / 2);
    this.isTrying = false;
    this.resting = 0;
    if (this.level === 0 || this.met < this.patience) return;
    this.enter(this.level - 1);
    this.isTrying = true;
  }

  /** The target is not met: less must be in flight. */
  private tighten(): void {
    if (this.isTrying) this.patience = Math.min(MOST_PATIENCE, 2 * this.patience);
    if (this.level < STRICTEST) {
      this.enter(this.level + 1);
      return;
    }
    this.enter(0);
    this.resting = this.rest;
    this.rest = Math.min(MOST_REST, 2 * this.rest);
    this.stance[STANCE] = Stance.TARGET_IMPOSSIBLE;
  }

  private enter(level: number): void {
    this.level = level;
    this.met = 0;
    this.missed = 0;
    this.hasMet = false;
    this.isNew = true;
    this.isTrying = false;
  }
}
