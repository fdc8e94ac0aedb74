/**
 * Advances virtual time for programs that know nothing of it. Posts and waits add events to the simulation. A
 * pump on the event loop delivers them, one observable event per iteration, and keeps the process alive only
 * while events are pending. Polls that find nothing advance time themselves (pollMissed).
 */

import { ARM_NONE, type Cq } from '../../sim/queues/cq.ts';
import type { Simulation } from '../../sim/simulation.ts';

/** Limit on unobservable events delivered in one iteration. */
const EVENTS_PER_ITERATION = 512;

/** How time advances. */
export interface TimePumpOptions {
  /** On its own, one event per iteration of the event loop. */
  autoAdvance: boolean;
  /**
   * Programs are actors of the simulation: they charge polls themselves, and runInside() delivers
   * notifications.
   */
  inside: boolean;
}

export class TimePump {
  readonly sim: Simulation;
  private readonly autoAdvance: boolean;
  private readonly inside: boolean;
  /** A sleep() ended, so its caller continues in an iteration of its own. */
  private sleepEnded = false;
  private pumping = false;
  private flushing = false;
  /** Pending notifications to the program, always delivered on a fresh stack. */
  private notifications: (() => void)[] = [];
  private readonly calls = new Map<number, () => void>();
  private nextToken = 1;
  /**
   * Sleeps that do not keep a run going, the soonest last. They become events only when time passes them for
   * another reason.
   */
  private readonly backgroundSleeps: { atNs: number; wake: () => void }[] = [];

  constructor(sim: Simulation, { autoAdvance, inside }: TimePumpOptions) {
    this.sim = sim;
    this.autoAdvance = autoAdvance && !inside;
    this.inside = inside;
    sim.world.hooks.call = (token) => {
      const call = this.calls.get(token);
      this.calls.delete(token);
      if (call !== undefined) this.notify(call);
    };
  }

  get nowNs(): number {
    return this.sim.world.clock[0];
  }

  /** Calls `action` after a delay in virtual time. */
  after(delayNs: number, action: () => void): void {
    const token = this.nextToken;
    this.nextToken = (token + 1) | 0;
    this.calls.set(token, action);
    this.sim.call(delayNs, token);
    this.start();
  }

  sleep(delayNs: number): Promise<void> {
    return new Promise((resolve) => this.after(delayNs, () => this.endSleep(resolve)));
  }

  /** Sleeps without keeping a run from ending. */
  sleepInBackground(delayNs: number): Promise<void> {
    const { backgroundSleeps: dozing } = this;
    const atNs = this.nowNs + delayNs;
    return new Promise((resolve) => {
      let at = dozing.length;
      while (at > 0 && dozing[at - 1].atNs <= atNs) at--;
      dozing.splice(at, 0, { atNs, wake: () => this.endSleep(resolve) });
    });
  }

  private endSleep(resolve: () => void): void {
    this.sleepEnded = true;
    resolve();
  }

  /**
   * Time is about to advance to the next event or to `untilNs`: schedules the background sleeps that end on
   * the way.
   */
  private wakeSleepers(untilNs: number): void {
    if (this.backgroundSleeps.length === 0) return;
    const goesToNs = untilNs === Number.MAX_VALUE ? this.sim.nextNs() : untilNs;
    if (goesToNs === Number.POSITIVE_INFINITY) return;
    for (
      let last = this.backgroundSleeps.at(-1);
      last !== undefined && last.atNs <= goesToNs;
      last = this.backgroundSleeps.at(-1)
    ) {
      this.backgroundSleeps.pop();
      this.after(Math.max(0, last.atNs - this.nowNs), last.wake);
    }
  }

  /** Notifies the program, from the pump or as soon as its own call has returned. */
  notify(action: () => void): void {
    this.notifications.push(action);
    if (this.flushing || this.inside) return;
    this.flushing = true;
    queueMicrotask(() => this.flush());
  }

  /** Starts the pump, unless it runs, after events were added. */
  start(): void {
    if (this.pumping || !this.autoAdvance || this.sim.nextNs() === Number.POSITIVE_INFINITY) return;
    this.pumping = true;
    setImmediate(this.runIteration);
  }

  /** Lets time pass for a poll that found nothing. */
  pollMissed(cq: Cq): void {
    if (this.inside) return;
    // A program that polls an armed queue has nothing else to do, so time skips to the next event. Not while
    // notifications are pending: they belong to the current time.
    if (cq.armed !== ARM_NONE && this.notifications.length === 0) {
      this.wakeSleepers(Number.MAX_VALUE);
      this.sim.step();
    } else {
      const untilNs = this.sim.nowNs + this.sim.world.params.pollMissNs;
      this.wakeSleepers(untilNs);
      this.sim.runUntil(untilNs);
    }
    this.start();
  }

  /** Runs until no events are left before `untilNs`. The program runs after each observable event. */
  async run(untilNs = Number.MAX_VALUE): Promise<void> {
    // Notifications caused by the program's own polls belong to the current time.
    if (this.notifications.length > 0) await nextIteration();
    do {
      this.runSome(untilNs);
      // Let the program settle before deciding that no events are left.
      await nextIteration();
      this.wakeSleepers(untilNs);
    } while (this.sim.nextNs() <= untilNs);
    if (untilNs !== Number.MAX_VALUE) this.sim.runUntil(untilNs);
  }

  /**
   * Runs events up to `untilNs` for actors, which await nothing, and delivers the notifications of each at
   * once. Returns false when a sleep ended on the way: let promises settle, then call it again.
   */
  runInside(untilNs: number): boolean {
    const { sim } = this;
    this.sleepEnded = false;
    this.wakeSleepers(untilNs);
    while (sim.stepBy(untilNs)) {
      while (this.notifications.length > 0) this.flush();
      if (this.sleepEnded) return false;
      this.wakeSleepers(untilNs);
    }
    sim.runUntil(untilNs);
    return true;
  }

  private readonly runIteration = (): void => {
    this.pumping = false;
    this.runSome(Number.MAX_VALUE);
    this.start();
  };

  /** Runs events up to the next observable one, at most one iteration's worth. */
  private runSome(untilNs: number): void {
    const { sim } = this;
    const before = sim.world.observable;
    for (let n = 0; n < EVENTS_PER_ITERATION && sim.world.observable === before; n++) {
      this.wakeSleepers(untilNs);
      if (sim.nextNs() > untilNs || !sim.step()) return;
    }
  }

  private flush(): void {
    this.flushing = false;
    const pending = this.notifications;
    this.notifications = [];
    for (let i = 0; i < pending.length; i++) {
      try {
        pending[i]();
      } catch (error) {
        // The notifications behind it are still delivered. The error is the program's, and uncaught like any
        // other.
        for (const action of pending.slice(i + 1)) this.notify(action);
        throw error;
      }
    }
  }
}

function nextIteration(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
