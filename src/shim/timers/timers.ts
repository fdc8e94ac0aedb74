/**
 * Timers of a policy. An alarm of the provider calls the shim, and the application's own calls check for expired timers
 * before that: in a program that only polls, the event loop never runs.
 */
import { InvalidArgumentError } from '../../verbs/errors.ts';
import type { Alarm, Provider } from '../../verbs/provider.ts';
import type { ShimContext } from '../context.ts';
import { alarmOf } from './sleep-alarm.ts';
import { TimerHeap } from './timer-heap.ts';

/** Timers that may be late are checked at most once in this many calls (a power of two), because a check reads the clock. */
const CALLS_PER_CHECK = 64;

/** Calls between two pulses (a power of two, and at least CALLS_PER_CHECK). */
const CALLS_PER_PULSE = 2048;

/**
 * If the calls between two checks take longer than SLOW_NS in all, as on a device that works within calls, fewer calls
 * pass between checks. If they take less than FAST_NS, more pass again.
 */
const SLOW_NS = 2e6;
const FAST_NS = SLOW_NS / 16;

/** The timers of a context. */
export class ContextTimers {
  /** Those that may not be late, and those that may. */
  readonly strict = new TimerHeap();
  readonly relaxed = new TimerHeap();
  /** The number of timers in both. */
  size = 0;
  /** The alarm that a simulated run waits for, and the one that it does not wait for; null: not needed yet. */
  runAlarm: Alarm | null = null;
  idleAlarm: Alarm | null = null;
  /** The soonest deadline of each that has not passed. */
  runAlarmNs = Number.POSITIVE_INFINITY;
  idleAlarmNs = Number.POSITIVE_INFINITY;

  /** The heap with the soonest timer. */
  get soonest(): TimerHeap {
    return this.strict.isBefore(this.relaxed) ? this.strict : this.relaxed;
  }
}

export class Timers {
  /** Number of timers, over all contexts, that may not be late; the hot path reads this. */
  pending = 0;
  /** [0]: the time for the next put(). An array, because V8 allocates a double that is passed to a function. */
  readonly dueNs = new Float64Array(1);
  /** Timers that may be late. */
  private relaxed = 0;
  /** [0]: the time of the last run. */
  private readonly clock = new Float64Array(1);
  /** Timers of the same time fire in the order in which they were set. */
  private order = 0;
  /** Contexts in which every call of the application must check (latency-probe.ts). */
  private watched = 0;
  /** Counts the application's calls; it is 0 in a call that must `check`. */
  private calls = 1;
  private step = 0;
  /** Value of `calls` when calls were last counted. */
  private counted = 0;
  /** What each call counts, while only some calls check (a power of two), and the time of the last check. */
  private stride = 1;
  private checkedNs = 0;
  private isShort = false;
  /**
   * What a call counts for a pulse, if it must check only for timers of its context and pulses; otherwise -1. A number,
   * because V8 tests booleans in fields as any value.
   */
  private pulsesEach = -1;
  /** Counts calls that must check for another reason while all timers may be late. */
  private checksSkipped = 0;
  /** Called in about one of CALLS_PER_PULSE calls; null: not needed. */
  private onPulse: (() => void) | null = null;
  /** Calls since the last pulse. */
  private unpulsed = 0;
  private readonly next: Provider;
  private readonly fire: (token: number) => void;

  constructor(next: Provider, fire: (token: number) => void) {
    this.next = next;
    this.fire = fire;
  }

  /** Whether this call of the application must `check`. */
  get isCheckDue(): boolean {
    this.calls = (this.calls + this.step) & (CALLS_PER_CHECK - 1);
    return this.calls === 0;
  }

  /** The same, unless all that the check would do in this context is to count the call for a pulse. */
  isCheckDueIn({ timers }: ShimContext): boolean {
    if (!this.isCheckDue) return false;
    if (this.pulsesEach < 0 || timers.size > 0) return true;
    this.unpulsed += this.pulsesEach;
    return this.unpulsed >= CALLS_PER_PULSE;
  }

  /** Every call must check while a timer may not be late; only some calls while all timers may be late. */
  private changed(): void {
    if (this.step > 0) this.counted = this.calls;
    const isEach = this.pending + this.watched > 0;
    this.step = !isEach && (this.relaxed > 0 || this.onPulse !== null) ? this.stride : 0;
    if (this.step > 0) this.calls = this.whole(this.counted);
    else this.calls = isEach ? 0 : 1;
    if (this.pending === 0 || this.watched > 0) this.pulsesEach = -1;
    else this.pulsesEach = this.onPulse === null ? 0 : 1;
  }

  /** Rounds a count so that strides lead to 0. */
  private whole(count: number): number {
    return count & -this.stride;
  }

  /** Adapts the stride, in a call that checks because the count is 0. */
  private pace(nowNs: number): void {
    const tookNs = nowNs - this.checkedNs;
    this.checkedNs = nowNs;
    if (tookNs > SLOW_NS) this.stride = Math.min(CALLS_PER_CHECK, 4 * this.stride);
    else if (tookNs < FAST_NS && this.stride > 1) this.stride >>= 1;
    if (this.step === 0) return;
    this.step = this.stride;
    // Alternates between n and n - 1 calls: otherwise, with two contexts that alternate, only one would ever check.
    this.isShort = !this.isShort;
    if (this.isShort) this.calls = this.stride & (CALLS_PER_CHECK - 1);
  }

  /** Calls this function from time to time between the application's calls, whether or not timers are set; null: no more. */
  pulse(onPulse: (() => void) | null): void {
    this.onPulse = onPulse;
    this.changed();
  }

  private beat(onPulse: () => void): void {
    const calls = this.step === 0 ? 1 : CALLS_PER_CHECK / this.step;
    this.unpulsed += calls;
    if (this.unpulsed < CALLS_PER_PULSE) return;
    this.unpulsed = 0;
    onPulse();
  }

  /** Called with true: every call must check, until this is called with false. */
  watch(isWatched: boolean): void {
    this.watched += isWatched ? 1 : -1;
    this.changed();
  }

  /** Fires expired timers, in a call of the application that must check. */
  check(context: ShimContext): void {
    if (this.onPulse !== null) this.beat(this.onPulse);
    if (this.pending === 0 && this.watched > 0) {
      // Timers that may be late are checked as rarely as they would be otherwise.
      this.checksSkipped = (this.whole(this.checksSkipped) + this.stride) & (CALLS_PER_CHECK - 1);
      if (this.checksSkipped !== 0) return;
    }
    if (this.pending === 0 && this.relaxed > 0) this.pace(this.next.nowNs(context.handle));
    this.run(context);
  }

  /** Sets, moves or (Infinity) removes a timer. @throws InvalidArgumentError for a time or a token that is not a number */
  set(context: ShimContext, atNs: number, token: number, mayBeLate: boolean): void {
    if (!isNumber(atNs) || !isNumber(token)) refuse(atNs, token);
    this.dueNs[0] = atNs;
    this.put(context, token, mayBeLate);
  }

  /** As set(), with the time in `dueNs`. */
  put(context: ShimContext, token: number, mayBeLate: boolean): void {
    if (context.closed) return;
    const { strict, relaxed } = context.timers;
    const heap = mayBeLate ? relaxed : strict;
    const other = mayBeLate ? strict : relaxed;
    if (other.remove(token)) this.count(context.timers, !mayBeLate, -1);
    if (this.dueNs[0] === Number.POSITIVE_INFINITY) {
      if (heap.remove(token)) this.count(context.timers, mayBeLate, -1);
      return;
    }
    heap.due[0] = this.dueNs[0];
    heap.due[1] = this.order++;
    this.count(context.timers, mayBeLate, heap.put(token) ? 1 : 0);
    this.arm(context);
  }

  /** Fires expired timers, the soonest first. */
  run(context: ShimContext): void {
    if (context.timers.size === 0) return;
    this.clock[0] = this.next.nowNs(context.handle);
    this.runDue(context);
  }

  /** Fires the timers that have expired by `clock`. */
  private runDue(context: ShimContext): void {
    const { timers } = context;
    const nowNs = this.clock[0];
    // A timer that an event sets for now fires next time; otherwise two timers could set each other for ever.
    for (let budget = timers.size; budget > 0; budget--) {
      const heap = timers.soonest;
      if (heap.headNs[0] > nowNs) break;
      const token = heap.headToken;
      heap.pop();
      this.count(timers, heap === timers.relaxed, -1);
      this.fire(token);
    }
    this.arm(context);
  }

  /** The context was closed, so its timers must no longer fire. */
  forget({ timers }: ShimContext): void {
    timers.runAlarm?.close();
    timers.idleAlarm?.close();
    while (timers.size > 0) {
      const heap = timers.soonest;
      heap.pop();
      this.count(timers, heap === timers.relaxed, -1);
    }
  }

  /** Sets the alarm for the earliest timer. While a queue pair depends on it, a simulated run waits for the alarm. */
  arm(context: ShimContext): void {
    const { timers } = context;
    if (timers.size === 0 || context.closed) return;
    const { strict, soonest } = timers;
    if (context.waiting > 0 && strict.headNs[0] < timers.runAlarmNs) {
      timers.runAlarm ??= alarmOf(this.next, context.handle, 'run', () => this.rang(context));
      timers.runAlarmNs = timers.runAlarm.atNs[0] = strict.headNs[0];
      timers.runAlarm.set();
    }
    if (soonest.headNs[0] < timers.runAlarmNs && soonest.headNs[0] < timers.idleAlarmNs) {
      timers.idleAlarm ??= alarmOf(this.next, context.handle, 'nothing', () => this.rang(context));
      timers.idleAlarmNs = timers.idleAlarm.atNs[0] = soonest.headNs[0];
      timers.idleAlarm.set();
    }
  }

  /** An alarm of the context calls, possibly for a deadline that was replaced. */
  private rang(context: ShimContext): void {
    const { timers } = context;
    const nowNs = this.next.nowNs(context.handle);
    this.clock[0] = nowNs;
    if (timers.runAlarmNs <= nowNs) timers.runAlarmNs = Number.POSITIVE_INFINITY;
    if (timers.idleAlarmNs <= nowNs) timers.idleAlarmNs = Number.POSITIVE_INFINITY;
    this.runDue(context);
  }

  /** As many timers more are set in a context, which may be late or not. */
  private count(timers: ContextTimers, mayBeLate: boolean, more: number): void {
    timers.size += more;
    if (mayBeLate) this.relaxed += more;
    else this.pending += more;
    this.changed();
  }
}

function isNumber(value: unknown): boolean {
  return typeof value === 'number' && !Number.isNaN(value);
}

function refuse(atNs: number, token: number): never {
  if (!isNumber(atNs)) {
    throw new InvalidArgumentError(`timer ${token}: the time must be a number of nanoseconds, got ${atNs}`);
  }
  throw new InvalidArgumentError(`timer ${token}: the token must be a number`);
}
