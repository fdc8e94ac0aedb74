/**
 * Timers of a policy. The provider's sleep wakes the shim, and the application's own calls check for expired timers
 * before that: in a program that only polls, promises never run.
 */
import { InvalidArgumentError } from '../verbs/errors.ts';
import type { Provider } from '../verbs/provider.ts';
import type { ShimContext } from './context.ts';

/** Timers that may be late are checked at most once in this many calls (a power of two), because a check reads the clock. */
const CALLS_PER_CHECK = 64;

/**
 * If the calls between two checks take longer than SLOW_NS in all, as on a device that works within calls, fewer calls
 * pass between checks. If they take less than FAST_NS, more pass again.
 */
const SLOW_NS = 2e6;
const FAST_NS = SLOW_NS / 16;

/** Longer sleeps are divided: a timer of Node.js has 31 bits of milliseconds. */
const MAX_SLEEP_NS = 1e15;

export class Timers {
  /** Timers of all contexts that may not be late; the hot path reads this. */
  pending = 0;
  /** Those that may be late. */
  private relaxed = 0;
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
  /** Counts calls that must check for another reason while all timers may be late. */
  private checksSkipped = 0;
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

  /** Every call must check while a timer may not be late; only some calls while all timers may be late. */
  private changed(): void {
    if (this.step > 0) this.counted = this.calls;
    const isEach = this.pending + this.watched > 0;
    this.step = !isEach && this.relaxed > 0 ? this.stride : 0;
    if (this.step > 0) this.calls = this.whole(this.counted);
    else this.calls = isEach ? 0 : 1;
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

  /** Every call must check, until this is called with false. */
  watch(isWatched: boolean): void {
    this.watched += isWatched ? 1 : -1;
    this.changed();
  }

  /** Fires expired timers, in a call of the application that must check. */
  check(context: ShimContext): void {
    if (this.pending === 0 && this.watched > 0) {
      // Timers that may be late are checked as rarely as they would be otherwise.
      this.checksSkipped = (this.whole(this.checksSkipped) + this.stride) & (CALLS_PER_CHECK - 1);
      if (this.checksSkipped !== 0) return;
    }
    if (this.pending === 0) this.pace(this.next.nowNs(context.handle));
    this.run(context);
  }

  /** @throws InvalidArgumentError for a time that is no number */
  set(context: ShimContext, atNs: number, token: number, mayBeLate: boolean): void {
    if (Number.isNaN(atNs) || typeof atNs !== 'number') {
      throw new InvalidArgumentError(`timer ${token}: the time must be a number of nanoseconds, got ${atNs}`);
    }
    if (context.closed) return;
    const { timesNs, tokens, relaxed } = context;
    const known = tokens.indexOf(token);
    if (known >= 0) this.remove(context, known);
    if (atNs === Number.POSITIVE_INFINITY) return;
    let at = timesNs.length;
    while (at > 0 && timesNs[at - 1] <= atNs) at--;
    timesNs.splice(at, 0, atNs);
    tokens.splice(at, 0, token);
    relaxed.splice(at, 0, mayBeLate);
    if (mayBeLate) this.relaxed++;
    else this.pending++;
    this.changed();
    this.sleep(context);
  }

  /** Fires expired timers, the soonest first. */
  run(context: ShimContext): void {
    const { timesNs, tokens } = context;
    let last = timesNs.length - 1;
    if (last < 0) return;
    const nowNs = this.next.nowNs(context.handle);
    // A timer that an event sets for now fires next time; otherwise two timers could set each other without end.
    for (let budget = timesNs.length; budget > 0 && last >= 0 && timesNs[last] <= nowNs; budget--) {
      const token = tokens[last];
      this.remove(context, last);
      this.fire(token);
      last = timesNs.length - 1;
    }
    this.sleep(context);
  }

  /** The context was closed: its timers must not fire any more. */
  forget(context: ShimContext): void {
    while (context.timesNs.length > 0) this.remove(context, context.timesNs.length - 1);
  }

  /** Sleeps until the earliest timer. While a queue pair depends on the sleep, a simulated run waits for it. */
  sleep(context: ShimContext): void {
    const { timesNs, relaxed } = context;
    const soonest = timesNs.length - 1;
    if (soonest < 0 || context.closed) return;
    if (context.waiting > 0) {
      const at = relaxed.lastIndexOf(false);
      if (at >= 0) this.sleepUntil(context, timesNs[at], true);
    }
    this.sleepUntil(context, timesNs[soonest], false);
  }

  private sleepUntil(context: ShimContext, atNs: number, isHeld: boolean): void {
    if (context.runSleepNs <= atNs || (!isHeld && context.idleSleepNs <= atNs)) return;
    if (isHeld) context.runSleepNs = atNs;
    else context.idleSleepNs = atNs;
    const delayNs = Math.min(Math.max(0, atNs - this.next.nowNs(context.handle)), MAX_SLEEP_NS);
    void this.next
      .sleep(context.handle, delayNs, isHeld ? 'run' : 'nothing')
      .then(() => this.sleepEnded(context, atNs));
  }

  private sleepEnded(context: ShimContext, atNs: number): void {
    if (context.closed) return;
    if (context.runSleepNs === atNs) context.runSleepNs = Number.POSITIVE_INFINITY;
    if (context.idleSleepNs === atNs) context.idleSleepNs = Number.POSITIVE_INFINITY;
    this.run(context);
    this.sleep(context);
  }

  private remove(context: ShimContext, at: number): void {
    context.timesNs.splice(at, 1);
    context.tokens.splice(at, 1);
    if (context.relaxed.splice(at, 1)[0]) this.relaxed--;
    else this.pending--;
    this.changed();
  }
}
