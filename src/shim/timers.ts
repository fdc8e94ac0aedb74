/**
 * Timers of a policy. The provider's sleep wakes the shim, and the application's own calls find what is due
 * before that: a program that only polls never gives a promise its turn.
 */
import { InvalidArgumentError } from '../verbs/errors.ts';
import type { Provider } from '../verbs/provider.ts';
import type { ShimContext } from './context.ts';

/** Longer ones are slept in parts: a timer of Node.js has 31 bits of milliseconds. */
const MAX_SLEEP_NS = 1e15;

export class Timers {
  /** Timers that are set, in all contexts: what the hot path looks at. */
  pending = 0;
  private readonly next: Provider;
  private readonly fire: (token: number) => void;

  constructor(next: Provider, fire: (token: number) => void) {
    this.next = next;
    this.fire = fire;
  }

  /** @throws InvalidArgumentError for a time that is no number */
  set(context: ShimContext, atNs: number, token: number): void {
    if (Number.isNaN(atNs) || typeof atNs !== 'number') {
      throw new InvalidArgumentError(`timer ${token}: the time must be a number of nanoseconds, got ${atNs}`);
    }
    if (context.closed) return;
    const { timesNs, tokens } = context;
    const known = tokens.indexOf(token);
    if (known >= 0) this.remove(context, known);
    if (atNs === Number.POSITIVE_INFINITY) return;
    let at = timesNs.length;
    while (at > 0 && timesNs[at - 1] <= atNs) at--;
    timesNs.splice(at, 0, atNs);
    tokens.splice(at, 0, token);
    this.pending++;
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
    this.pending -= context.timesNs.length;
    context.timesNs.length = 0;
    context.tokens.length = 0;
  }

  /** Makes sure that something wakes the shim in time: a simulated run waits for it if something hangs on it. */
  sleep(context: ShimContext): void {
    const { timesNs } = context;
    if (timesNs.length === 0 || context.closed) return;
    const atNs = timesNs[timesNs.length - 1];
    const isHeld = context.waiting > 0;
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
    this.pending--;
  }
}
