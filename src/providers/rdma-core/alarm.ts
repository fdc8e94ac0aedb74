/** The clock of a host, and sleeps and alarms in the event loop of a program. Alarms keep no program alive. */
import type { Alarm, SleepKeeps } from '../../verbs/provider.ts';

const NS_PER_MS = 1e6;
/** Node.js measures timers in whole milliseconds. Nearer deadlines are checked at each turn of the event loop, too. */
const NEAR_NS = 2 * NS_PER_MS;
/** Longer times are divided: a timer of Node.js has 31 bits of milliseconds. */
const MAX_MS = 1e9;

/**
 * CLOCK_MONOTONIC in nanoseconds, which all threads and processes of a host share, accurate to the microsecond between the
 * two readings here; performance.now() alone starts at 0 in each.
 */
export function monotonicClock(): () => number {
  const [seconds, nanoseconds] = process.hrtime();
  const originNs = seconds * 1e9 + nanoseconds - performance.now() * NS_PER_MS;
  return () => originNs + performance.now() * NS_PER_MS;
}

/**
 * Resolves after this time, never earlier: a timer of Node.js counts from when its turn of the event loop began, so that it
 * may fire early.
 */
export function sleepInRealTime(
  _context: number,
  delayNs: number,
  keeps: SleepKeeps = 'program',
): Promise<void> {
  const endMs = performance.now() + delayNs / NS_PER_MS;
  return new Promise((resolve) => {
    const wait = (leftMs: number) => {
      const timer = setTimeout(ended, Math.min(leftMs, MAX_MS));
      if (keeps !== 'program') timer.unref();
    };
    const ended = () => {
      const leftMs = endMs - performance.now();
      if (leftMs > 0) wait(leftMs);
      else resolve();
    };
    wait(delayNs / NS_PER_MS);
  });
}

/**
 * An alarm that is checked at each turn of the event loop once its deadline is near. While the loop has nothing to do
 * and sleeps, a timer of Node.js wakes it.
 */
export class EventLoopAlarm implements Alarm {
  readonly atNs = new Float64Array(1);
  private dueNs = Number.POSITIVE_INFINITY;
  private readonly nowNs: () => number;
  private readonly listener: () => void;
  private timeout: NodeJS.Timeout | null = null;
  private immediate: NodeJS.Immediate | null = null;

  constructor(nowNs: () => number, listener: () => void) {
    this.nowNs = nowNs;
    this.listener = listener;
  }

  set(): void {
    this.dueNs = this.atNs[0];
    this.wait();
  }

  close(): void {
    this.dueNs = Number.POSITIVE_INFINITY;
    this.wait();
  }

  private wait(): void {
    if (this.timeout !== null) clearTimeout(this.timeout);
    this.timeout = null;
    if (this.dueNs === Number.POSITIVE_INFINITY) {
      if (this.immediate !== null) clearImmediate(this.immediate);
      this.immediate = null;
      return;
    }
    const leftNs = Math.max(0, this.dueNs - this.nowNs());
    this.timeout = setTimeout(this.timedOut, Math.min(leftNs / NS_PER_MS, MAX_MS)).unref();
    if (leftNs <= NEAR_NS) this.checkNextTurn();
  }

  private checkNextTurn(): void {
    this.immediate ??= setImmediate(this.turned).unref();
  }

  private readonly timedOut = (): void => {
    this.timeout = null;
    if (!this.ring()) this.wait();
  };

  private readonly turned = (): void => {
    this.immediate = null;
    if (!this.ring()) this.checkNextTurn();
  };

  /** Calls the listener if the deadline has passed. */
  private ring(): boolean {
    if (this.nowNs() < this.dueNs) return false;
    this.dueNs = Number.POSITIVE_INFINITY;
    this.wait();
    this.listener();
    return true;
  }
}
