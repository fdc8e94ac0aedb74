/**
 * Time for programs that know nothing of virtual time. Posts and waits put events into the simulation;
 * a pump on the event loop delivers them, one thing that a program could see per turn, and keeps the
 * process alive only while events are pending. Polls that find nothing move time themselves (miss).
 */

import { ARM_NONE, type Cq } from '../../sim/queues/cq.ts';
import type { Simulation } from '../../sim/simulation.ts';

/** Events that a program can not see are delivered together, up to so many per turn. */
const EVENTS_PER_ITERATION = 512;

/** How time moves. */
export interface TimePumpOptions {
  /** By itself, one event per turn of the event loop. */
  autoAdvance: boolean;
  /** Programs are actors of the simulation: a poll takes the time that they say, and runInside() tells the news. */
  inside: boolean;
}

export class TimePump {
  readonly sim: Simulation;
  private readonly autoAdvance: boolean;
  private readonly inside: boolean;
  /** A sleep() ended: who awaits it goes on in a turn of its own. */
  private sleepEnded = false;
  private pumping = false;
  private flushing = false;
  /** What events want to tell the program; always told on a fresh stack. */
  private notifications: (() => void)[] = [];
  private readonly calls = new Map<number, () => void>();
  private nextToken = 1;
  /** Sleeps that no run waits for, the soonest last: events only once time goes that far for another reason. */
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

  /** A sleep that keeps no run from ending. */
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

  /** Time is about to go on, to the next event or to `untilNs`: who dozes no longer than that is to wake on the way. */
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

  /** The program is to hear of something: from the pump, or as soon as its own call has returned. */
  notify(action: () => void): void {
    this.notifications.push(action);
    if (this.flushing || this.inside) return;
    this.flushing = true;
    queueMicrotask(() => this.flush());
  }

  /** Something was put into the simulation: the pump runs if it did not. */
  start(): void {
    if (this.pumping || !this.autoAdvance || this.sim.nextNs() === Number.POSITIVE_INFINITY) return;
    this.pumping = true;
    setImmediate(this.runIteration);
  }

  /** A poll found nothing: time goes by. */
  pollMissed(cq: Cq): void {
    if (this.inside) return;
    // A program that armed its queue and looks once more has nothing else to do: on to the next event. Unless it
    // is to hear of something as soon as its call returns: that comes in the time in which it happened.
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

  /** Runs until nothing is left to happen before `untilNs`, giving the program its turn after all that it could see. */
  async run(untilNs = Number.MAX_VALUE): Promise<void> {
    // What the program's own polls made happen, it hears in that time.
    if (this.notifications.length > 0) await nextIteration();
    do {
      this.runSome(untilNs);
      // The program may go on now: let it settle before saying that all is quiet.
      await nextIteration();
      this.wakeSleepers(untilNs);
    } while (this.sim.nextNs() <= untilNs);
    if (untilNs !== Number.MAX_VALUE) this.sim.runUntil(untilNs);
  }

  /**
   * Runs events up to `untilNs`, and after each tells what it had to tell, all in one go: for actors, which
   * await nothing. False when a sleep ended on the way: the caller lets promises settle, and calls again.
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

  /** Runs events until one that a program could see, at most one turn's worth. */
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
    const news = this.notifications;
    this.notifications = [];
    for (let i = 0; i < news.length; i++) {
      try {
        news[i]();
      } catch (error) {
        // Those behind it are still told; the error is the program's, and uncaught like any other.
        for (const action of news.slice(i + 1)) this.notify(action);
        throw error;
      }
    }
  }
}

function nextIteration(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
