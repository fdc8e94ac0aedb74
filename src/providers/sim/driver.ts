/**
 * Time for programs that know nothing of virtual time. Posts and waits put events into the simulation;
 * a pump on the event loop delivers them, one thing that a program could see per turn, and keeps the
 * process alive only while events are pending. Polls that find nothing move time themselves (miss).
 */
import { ARM_NONE, type Cq } from '../../sim/queues/cq.ts';
import type { Simulation } from '../../sim/simulation.ts';

/** Events that a program can not see are delivered together, up to so many per turn. */
const EVENTS_PER_TURN = 512;

/** How time moves. */
export interface DriverOptions {
  /** By itself, one event per turn of the event loop. */
  autoAdvance: boolean;
  /** Programs are actors of the simulation: a poll takes the time that they say, and runInside() tells the news. */
  inside: boolean;
}

export class Driver {
  readonly sim: Simulation;
  private readonly autoAdvance: boolean;
  private readonly inside: boolean;
  /** A sleep() ended: who awaits it goes on in a turn of its own. */
  private awoke = false;
  private pumping = false;
  private flushing = false;
  /** What events want to tell the program; always told on a fresh stack. */
  private news: (() => void)[] = [];
  private readonly calls = new Map<number, () => void>();
  private nextToken = 1;
  /** Sleeps that no run waits for, the soonest last: events only once time goes that far for another reason. */
  private readonly dozing: { atNs: number; wake: () => void }[] = [];

  constructor(sim: Simulation, { autoAdvance, inside }: DriverOptions) {
    this.sim = sim;
    this.autoAdvance = autoAdvance && !inside;
    this.inside = inside;
    sim.world.hooks.call = (token) => {
      const call = this.calls.get(token);
      this.calls.delete(token);
      if (call !== undefined) this.tell(call);
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
    this.wake();
  }

  sleep(delayNs: number): Promise<void> {
    return new Promise((resolve) => this.after(delayNs, () => this.awake(resolve)));
  }

  /** A sleep that keeps no run from ending. */
  doze(delayNs: number): Promise<void> {
    const { dozing } = this;
    const atNs = this.nowNs + delayNs;
    return new Promise((resolve) => {
      let at = dozing.length;
      while (at > 0 && dozing[at - 1].atNs <= atNs) at--;
      dozing.splice(at, 0, { atNs, wake: () => this.awake(resolve) });
    });
  }

  private awake(resolve: () => void): void {
    this.awoke = true;
    resolve();
  }

  /** Time is about to go on, to the next event or to `untilNs`: who dozes no longer than that is to wake on the way. */
  private rouse(untilNs: number): void {
    if (this.dozing.length === 0) return;
    const goesToNs = untilNs === Number.MAX_VALUE ? this.sim.nextNs() : untilNs;
    if (goesToNs === Number.POSITIVE_INFINITY) return;
    for (
      let last = this.dozing.at(-1);
      last !== undefined && last.atNs <= goesToNs;
      last = this.dozing.at(-1)
    ) {
      this.dozing.pop();
      this.after(Math.max(0, last.atNs - this.nowNs), last.wake);
    }
  }

  /** The program is to hear of something: from the pump, or as soon as its own call has returned. */
  tell(action: () => void): void {
    this.news.push(action);
    if (this.flushing || this.inside) return;
    this.flushing = true;
    queueMicrotask(() => this.flush());
  }

  /** Something was put into the simulation: the pump runs if it did not. */
  wake(): void {
    if (this.pumping || !this.autoAdvance || this.sim.nextNs() === Number.POSITIVE_INFINITY) return;
    this.pumping = true;
    setImmediate(this.turn);
  }

  /** A poll found nothing: time goes by. */
  miss(cq: Cq): void {
    if (this.inside) return;
    // A program that armed its queue and looks once more has nothing else to do: on to the next event. Unless it
    // is to hear of something as soon as its call returns: that comes in the time in which it happened.
    if (cq.armed !== ARM_NONE && this.news.length === 0) {
      this.rouse(Number.MAX_VALUE);
      this.sim.step();
    } else {
      const untilNs = this.sim.nowNs + this.sim.world.params.pollMissNs;
      this.rouse(untilNs);
      this.sim.runUntil(untilNs);
    }
    this.wake();
  }

  /** Runs until nothing is left to happen before `untilNs`, giving the program its turn after all that it could see. */
  async run(untilNs = Number.MAX_VALUE): Promise<void> {
    // What the program's own polls made happen, it hears in that time.
    if (this.news.length > 0) await nextTurn();
    do {
      this.runSome(untilNs);
      // The program may go on now: let it settle before saying that all is quiet.
      await nextTurn();
      this.rouse(untilNs);
    } while (this.sim.nextNs() <= untilNs);
    if (untilNs !== Number.MAX_VALUE) this.sim.runUntil(untilNs);
  }

  /**
   * Runs events up to `untilNs`, and after each tells what it had to tell, all in one go: for actors, which
   * await nothing. False when a sleep ended on the way: the caller lets promises settle, and calls again.
   */
  runInside(untilNs: number): boolean {
    const { sim } = this;
    this.awoke = false;
    this.rouse(untilNs);
    while (sim.stepBy(untilNs)) {
      while (this.news.length > 0) this.flush();
      if (this.awoke) return false;
      this.rouse(untilNs);
    }
    sim.runUntil(untilNs);
    return true;
  }

  private readonly turn = (): void => {
    this.pumping = false;
    this.runSome(Number.MAX_VALUE);
    this.wake();
  };

  /** Runs events until one that a program could see, at most one turn's worth. */
  private runSome(untilNs: number): void {
    const { sim } = this;
    const before = sim.world.observable;
    for (let n = 0; n < EVENTS_PER_TURN && sim.world.observable === before; n++) {
      this.rouse(untilNs);
      if (sim.nextNs() > untilNs || !sim.step()) return;
    }
  }

  private flush(): void {
    this.flushing = false;
    const news = this.news;
    this.news = [];
    for (let i = 0; i < news.length; i++) {
      try {
        news[i]();
      } catch (error) {
        // Those behind it are still told; the error is the program's, and uncaught like any other.
        for (const action of news.slice(i + 1)) this.tell(action);
        throw error;
      }
    }
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
