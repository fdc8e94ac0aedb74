/**
 * Timers of a policy. The provider's sleep wakes the shim, and the application's own calls find what is due
 * before that: a program that only polls never gives a promise its turn.
 */
import { InvalidArgumentError } from '../verbs/errors.ts';
import type { Provider } from '../verbs/provider.ts';
import type { ShimContext } from './context.ts';

/** At every so many calls (a power of two) timers that may be late are looked for: a look reads the clock. */
const CALLS_PER_LOOK = 64;

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
  /** Counts the calls that did look although only timers are set that may be late. */
  private looks = 0;
  private readonly next: Provider;
  private readonly fire: (token: number) => void;

  constructor(next: Provider, fire: (token: number) => void) {
    this.next = next;
    this.fire = fire;
  }

  /** Whether a call of the application is to `look`. */
  get isTime(): boolean {
    this.calls = (this.calls + this.step) & (CALLS_PER_LOOK - 1);
    return this.calls === 0;
  }

  /** Every call is to look while a timer is set that may not be late; one in so many while only others are. */
  private changed(): void {
    if (this.step === 1) this.counted = this.calls;
    const isEach = this.pending + this.watched > 0;
    this.step = !isEach && this.relaxed > 0 ? 1 : 0;
    if (this.step === 1) this.calls = this.counted;
    else this.calls = isEach ? 0 : 1;
  }

  /** Each call is to look, until that is taken back. */
  watch(isWatched: boolean): void {
    this.watched += isWatched ? 1 : -1;
    this.changed();
  }

  /** In a call of the application that is to: fires what is due. */
  look(context: ShimContext): void {
    if (this.pending === 0 && this.watched > 0) {
      // Timers that may be late wait for as many calls as they would otherwise.
      this.looks = (this.looks + 1) & (CALLS_PER_LOOK - 1);
      if (this.looks !== 0) return;
    }
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
      .then(() => this.wake(context, atNs));
  }

  private wake(context: ShimContext, atNs: number): void {
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
