/**
 * Advances virtual time for programs that are unaware of it. Posts and waits add events to the simulation. A
 * pump on the event loop delivers them, one observable event per iteration, and keeps the process alive only
 * while events are pending. Polls that find nothing advance time themselves (pollMissed).
 */

import { EV_ALARM, EV_CALL } from '../../sim/kernel/event-kinds.ts';
import { EventQueue } from '../../sim/kernel/event-queue.ts';
import { ARM_NONE, type Cq } from '../../sim/queues/cq.ts';
import type { Simulation } from '../../sim/simulation.ts';
import type { Alarm, SleepKeeps } from '../../verbs/provider.ts';

/** Limit on unobservable events delivered in one iteration. */
const EVENTS_PER_ITERATION = 512;

/** How time advances. */
export interface TimePumpOptions {
  /** Whether time also advances on its own, one event per iteration of the event loop. */
  autoAdvance: boolean;
  /**
   * Programs are actors of the simulation: they charge polls themselves, and runInside() delivers
   * notifications.
   */
  inside: boolean;
}

/** An alarm on virtual time. Each deadline is an event, also one that was replaced. */
class SimAlarm implements Alarm {
  readonly atNs = new Float64Array(1);
  private listener: () => void;
  private readonly schedule: (atNs: Float64Array) => void;

  constructor(listener: () => void, schedule: (atNs: Float64Array) => void) {
    this.listener = listener;
    this.schedule = schedule;
  }

  set(): void {
    if (this.atNs[0] < Number.POSITIVE_INFINITY) this.schedule(this.atNs);
  }

  readonly ring = (): void => this.listener();

  close(): void {
    this.listener = () => {};
  }
}

export class TimePump {
  readonly sim: Simulation;
  private readonly autoAdvance: boolean;
  private readonly inside: boolean;
  /** Whether a sleep() ended, so that its caller continues in a separate iteration. */
  private sleepEnded = false;
  private pumping = false;
  private flushing = false;
  /** Pending notifications to the program, always delivered on a fresh stack. */
  private notifications: (() => void)[] = [];
  private readonly calls = new Map<number, () => void>();
  private nextToken = 1;
  /** Sleeps and deadlines that do not keep a run going. They become events only when time passes them anyway. */
  private readonly background = new EventQueue();
  /** Alarms by number. */
  private readonly alarms: SimAlarm[] = [];
  /** For actors: the alarm whose deadline the last event was. */
  private ringing: SimAlarm | null = null;

  constructor(sim: Simulation, { autoAdvance, inside }: TimePumpOptions) {
    this.sim = sim;
    this.autoAdvance = autoAdvance && !inside;
    this.inside = inside;
    sim.world.hooks.call = (token) => {
      const call = this.calls.get(token);
      this.calls.delete(token);
      if (call !== undefined) this.notify(call);
    };
    sim.world.hooks.alarm = (number) => {
      if (inside) this.ringing = this.alarms[number];
      else this.notify(this.alarms[number].ring);
    };
  }

  get nowNs(): number {
    return this.sim.world.clock[0];
  }

  /** Calls `action` after a delay in virtual time. */
  after(delayNs: number, action: () => void): void {
    this.sim.call(delayNs, this.tokenFor(action));
    this.start();
  }

  /** A token for EV_CALL. */
  private tokenFor(action: () => void): number {
    const token = this.nextToken;
    this.nextToken = (token + 1) | 0;
    this.calls.set(token, action);
    return token;
  }

  sleep(delayNs: number): Promise<void> {
    return new Promise((resolve) => this.after(delayNs, () => this.endSleep(resolve)));
  }

  /** Sleeps without keeping a run from ending. */
  sleepInBackground(delayNs: number): Promise<void> {
    return new Promise((resolve) => {
      this.background.due[0] = this.nowNs + delayNs;
      this.background.push(
        EV_CALL,
        this.tokenFor(() => this.endSleep(resolve)),
        0,
        0,
      );
    });
  }

  /** Creates an alarm; the simulated host notices its deadline `timerLateNs` late. */
  createAlarm(keeps: SleepKeeps, listener: () => void): Alarm {
    const number = this.alarms.length;
    const alarm = new SimAlarm(listener, (dueNs) => {
      const queue = keeps === 'nothing' ? this.background : this.sim.world.events;
      queue.due[0] = Math.max(this.sim.world.clock[0], dueNs[0]) + this.sim.world.params.timerLateNs;
      queue.push(EV_ALARM, number, 0, 0);
      if (queue !== this.background) this.start();
    });
    this.alarms.push(alarm);
    return alarm;
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
    const { background, sim } = this;
    if (background.size === 0) return;
    const goesToNs = untilNs === Number.MAX_VALUE ? sim.nextNs() : untilNs;
    if (goesToNs === Number.POSITIVE_INFINITY) return;
    const { clock, events } = sim.world;
    while (background.headTime() <= goesToNs) {
      background.pop();
      events.due[0] = Math.max(clock[0], background.time);
      events.push(background.kind, background.a, 0, 0);
      this.start();
    }
  }

  /** Notifies the program, from the pump or as soon as its own call has returned. */
  notify(action: () => void): void {
    this.notifications.push(action);
    if (this.flushing || this.inside) return;
    this.flushing = true;
    queueMicrotask(() => this.flush());
  }

  /** Starts the pump after events were added, unless it is running. */
  start(): void {
    if (this.pumping || !this.autoAdvance || this.sim.nextNs() === Number.POSITIVE_INFINITY) return;
    this.pumping = true;
    setImmediate(this.runIteration);
  }

  /** Lets time pass for a poll that found nothing. */
  pollMissed(cq: Cq): void {
    if (this.inside) return;
    // A program that polls an armed queue has nothing else to do, so time skips to the next event. Time does not skip
    // while notifications are pending, because they belong to the current time.
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
      const { ringing } = this;
      if (ringing !== null) {
        this.ringing = null;
        ringing.ring();
      }
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
