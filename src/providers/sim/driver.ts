/**
 * Time for programs that know nothing of virtual time. Posts and waits put events into the simulation;
 * a pump on the event loop delivers them, one thing that a program could see per turn, and keeps the
 * process alive only while events are pending. Polls that find nothing move time themselves (miss).
 */
import { ARM_NONE, type Cq } from '../../sim/cq.ts';
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

  constructor(sim: Simulation, { autoAdvance, inside }: DriverOptions) {
    this.sim = sim;
    this.autoAdvance = autoAdvance && !inside;
    this.inside = inside;
    sim.net.hooks.call = (token) => {
      const call = this.calls.get(token);
      this.calls.delete(token);
      if (call !== undefined) this.tell(call);
    };
  }

  get nowNs(): number {
    return this.sim.net.clock[0];
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
    return new Promise((resolve) =>
      this.after(delayNs, () => {
        this.awoke = true;
        resolve();
      }),
    );
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
    // A program that armed its queue and looks once more has nothing else to do: on to the next event.
    if (cq.armed !== ARM_NONE) this.sim.step();
    else this.sim.runUntil(this.sim.nowNs + this.sim.net.params.pollMissNs);
    this.wake();
  }

  /** Runs until nothing is left to happen before `untilNs`, giving the program its turn after all that it could see. */
  async run(untilNs = Number.MAX_VALUE): Promise<void> {
    do {
      this.runSome(untilNs);
      // The program may go on now: let it settle before saying that all is quiet.
      await nextTurn();
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
    while (sim.stepBy(untilNs)) {
      while (this.news.length > 0) this.flush();
      if (this.awoke) return false;
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
    const before = sim.net.observable;
    for (let n = 0; n < EVENTS_PER_TURN && sim.net.observable === before; n++) {
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
