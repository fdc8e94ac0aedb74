/**
 * Timers of a policy. The provider's sleep wakes the shim, and the application's own calls find what is due
 * before that: a program that only polls never gives a promise its turn.
 */
import { InvalidArgumentError } from '../verbs/errors.ts';
import type { Provider } from '../verbs/provider.ts';
import type { ShimContext } from './context.ts';

/** At every so many calls (a power of two) at most timers that may be late are looked for: a look reads the clock. */
const CALLS_PER_CHECK = 64;

/**
 * So many calls that take longer than this in all, as those of a device do that works within them, are too many to be
 * late by: fewer pass between two looks. Calls that take far less have the whole number of them again.
 */
const SLOW_NS = 2e6;
const FAST_NS = SLOW_NS / 16;

/** Longer ones are slept in parts: a timer of Node.js has 31 bits of milliseconds. */
const MAX_SLEEP_NS = 1e15;

export class Timers {
  /** Timers that are set and may not be late, in all contexts: what the hot path looks at. */
  pending = 0;
  /** Those that may be late. */
  private relaxed = 0;
  /** Contexts of which each call of the application is looked at (sample.ts). */
  private watched = 0;
  /** Counts the calls of the application, and stands at 0 in one that is to `look`. */
  private calls = 1;
  private step = 0;
  /** `calls`, as it was when it was last counted. */
  private counted = 0;
  /** What each call counts for where only one in so many looks (a power of two); and the time of the last look. */
  private stride = 1;
  private checkedNs = 0;
  private isShort = false;
  /** Counts the calls that did look although only timers are set that may be late. */
  private checksSkipped = 0;
  private readonly next: Provider;
  private readonly fire: (token: number) => void;

  constructor(next: Provider, fire: (token: number) => void) {
    this.next = next;
    this.fire = fire;
  }

  /** Whether a call of the application is to `look`. */
  get isCheckDue(): boolean {
    this.calls = (this.calls + this.step) & (CALLS_PER_CHECK - 1);
    return this.calls === 0;
  }

  /** Every call is to look while a timer is set that may not be late; one in so many while only others are. */
  private changed(): void {
    if (this.step > 0) this.counted = this.calls;
    const isEach = this.pending + this.watched > 0;
    this.step = !isEach && this.relaxed > 0 ? this.stride : 0;
    if (this.step > 0) this.calls = this.whole(this.counted);
    else this.calls = isEach ? 0 : 1;
  }

  /** A count that gets to 0 by strides. */
  private whole(count: number): number {
    return count & -this.stride;
  }

  /** In a call that looks as one of so many: the count stands at 0. */
  private pace(nowNs: number): void {
    const tookNs = nowNs - this.checkedNs;
    this.checkedNs = nowNs;
    if (tookNs > SLOW_NS) this.stride = Math.min(CALLS_PER_CHECK, 4 * this.stride);
    else if (tookNs < FAST_NS && this.stride > 1) this.stride >>= 1;
    if (this.step === 0) return;
    this.step = this.stride;
    // Now so many calls, now one less: with two contexts in turn it would always be the same one's call that looks.
    this.isShort = !this.isShort;
    if (this.isShort) this.calls = this.stride & (CALLS_PER_CHECK - 1);
  }

  /** Each call is to look, until that is taken back. */
  watch(isWatched: boolean): void {
    this.watched += isWatched ? 1 : -1;
    this.changed();
  }

  /** In a call of the application that is to: fires what is due. */
  check(context: ShimContext): void {
    if (this.pending === 0 && this.watched > 0) {
      // Timers that may be late wait for as many calls as they would otherwise.
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

  /** Fires what is due, the soonest first. */
  run(context: ShimContext): void {
    const { timesNs, tokens } = context;
    let last = timesNs.length - 1;
    if (last < 0) return;
    const nowNs = this.next.nowNs(context.handle);
    // What an event sets for now is for the next time: or two timers could go on for ever.
    for (let budget = timesNs.length; budget > 0 && last >= 0 && timesNs[last] <= nowNs; budget--) {
      const token = tokens[last];
      this.remove(context, last);
      this.fire(token);
      last = timesNs.length - 1;
    }
    this.sleep(context);
  }

  /** The context is closed: nothing of it fires any more. */
  forget(context: ShimContext): void {
    while (context.timesNs.length > 0) this.remove(context, context.timesNs.length - 1);
  }

  /** Makes sure that something wakes the shim in time: a simulated run waits for it if something hangs on it. */
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
