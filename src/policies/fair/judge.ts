/**
 * Decides how strictly a device is scheduled, by the latency of short messages. It times one message at a time, each on
 * a queue pair with nothing else in flight.
 */
import { STANCE_NUMBERS } from './stance.ts';

/** No message is being timed. */
const NOTHING = -1;

/** A judge of one device. */
export abstract class Judge {
  /** Whether to schedule the device now. */
  abstract readonly isOn: boolean;
  /** How strictly to schedule it: 0, or more to have less in flight (strictness.ts). */
  abstract readonly level: number;
  /** Whether `plan` has been called, and `onTimer` has not returned Infinity since. */
  abstract readonly isPlanned: boolean;
  /** Whether the device is left alone, and nothing is measured. */
  abstract readonly isAside: boolean;
  /** Whether the device is scheduled, and nothing is measured until the next trial, which is planned. */
  abstract readonly isResting: boolean;
  /** Whether a short message on an idle queue pair is to be timed. */
  abstract readonly wantsTime: boolean;
  /** What is done, and why: see stance.ts. */
  readonly stance = new Float64Array(STANCE_NUMBERS);
  private timed = NOTHING;
  private readonly sinceNs = new Float64Array(1);

  /** Traffic begins. Returns when to call `onTimer`. */
  abstract plan(nowNs: number): number;

  /**
   * Returns when to call it again; Infinity: not before `plan`.
   * @param sentBytes bytes that all queue pairs have sent
   * @param isContended whether scheduling may make a difference: requests wait, or, while the device is left alone,
   * more than one queue pair is in use
   */
  abstract onTimer(nowNs: number, sentBytes: number, isContended: boolean): number;

  /** A short message has taken this long. Returns whether the decision has changed. */
  protected abstract took(ns: number): boolean;

  protected get isTiming(): boolean {
    return this.timed !== NOTHING;
  }

  /** A short message was sent on a queue pair with nothing else in flight. */
  time(qp: number, nowNs: number): void {
    this.timed = qp;
    this.sinceNs[0] = nowNs;
  }

  isTimed(qp: number): boolean {
    return this.timed === qp;
  }

  /** The message that was being timed has completed. Returns whether the decision has changed. */
  completed(nowNs: number): boolean {
    this.timed = NOTHING;
    return this.took(nowNs - this.sinceNs[0]);
  }

  /** The queue pair was destroyed or modified. */
  cancel(qp: number): void {
    if (this.timed === qp) this.timed = NOTHING;
  }

  /** Forgets the message that is being timed. */
  protected stopTiming(): void {
    this.timed = NOTHING;
  }
}
