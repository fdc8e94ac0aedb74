/** Dispatches the simulation's events to the applications of a mix. */
import type { Fabric } from '../providers/sim/index.ts';
import { CORE_POLLS, type Core } from '../sim/host/core.ts';
import { EV_ACTOR } from '../sim/kernel/event-kinds.ts';
import type { World } from '../sim/world.ts';
import type { Meter } from './meter.ts';
import type { ShimCpu } from './shim-cpu.ts';
import type { Stacks } from './stacks.ts';

// Kinds of actor events (their `b`), in addition to CORE_POLLS. 0 means that a completion became visible.
const COMPLETION = 0;
const POST = 2;
const START = 3;
const OPEN = 4;
const CLOSE = 5;
const TICK = 6;
const STEP = 7;
const CALL = 8;

/** Polls one completion queue, on one core. */
export interface Poller {
  readonly core: Core;
  /** Index of the completion queue among those of the core. */
  readonly queue: number;
  poll(): void;
}

/** A poller that also posts. */
export interface Poster extends Poller {
  /** Posts the first batches. */
  start(): void;
  post(): void;
}

export class Dispatcher {
  readonly stacks: Stacks;
  readonly cpu: ShimCpu;
  readonly world: World;
  readonly clock: Float64Array;
  readonly cpuAhead: Float64Array;
  /** Pollers by number, as in events: the actor of a completion queue is its poller. */
  readonly pollers: Poller[] = [];
  readonly cores: Core[] = [];
  /** Hosts by core. */
  readonly coreHosts: number[] = [];
  readonly meters: Meter[] = [];
  /** Called at each tick of the timeline. */
  onTick: (tick: number) => void = () => {};
  /** Called at each step of the script. */
  onStep: (step: number) => void = () => {};
  /** Pollers by core, then by queue of the core. */
  private readonly pollersByCore: Poller[][] = [];
  /** Actions of callAt() by number. */
  private readonly calls = new Map<number, () => void>();
  private nextCall = 0;

  constructor(fabric: Fabric, stacks: Stacks, cpu: ShimCpu) {
    const { world } = fabric.simulation;
    this.stacks = stacks;
    this.cpu = cpu;
    this.world = world;
    this.clock = world.clock;
    this.cpuAhead = world.cpuAhead;
    world.hooks.actor = (actor, b) => this.dispatch(actor, b);
  }

  addCore(core: Core, host: number): void {
    this.cores.push(core);
    this.coreHosts.push(host);
    this.pollersByCore.push([]);
  }

  /** Makes `poller` poll the completion queue `cq` on `core`. */
  addPoller(poller: Poller, core: number, cq: number): void {
    this.moveTo(this.pollers.length, cq);
    this.pollers.push(poller);
    this.pollersByCore[core].push(poller);
  }

  /** Makes the poller with this number poll another completion queue. */
  moveTo(poller: number, cq: number): void {
    const queue = this.world.hooks.cqOf(cq);
    if (queue === undefined) throw new Error(`unknown completion queue ${cq}`);
    queue.actor = poller;
  }

  startAt(timeNs: number, sender: number): void {
    this.schedule(timeNs, sender, START);
  }

  postAt(timeNs: number, sender: number): void {
    this.schedule(timeNs, sender, POST);
  }

  /** Schedules the start and end of a meter's window. */
  measure(meter: Meter, openNs: number, closeNs: number): void {
    const id = this.meters.length;
    this.meters.push(meter);
    this.schedule(openNs, id, OPEN);
    this.schedule(closeNs, id, CLOSE);
  }

  tickAt(timeNs: number, tick: number): void {
    this.schedule(timeNs, tick, TICK);
  }

  stepAt(timeNs: number, step: number): void {
    this.schedule(timeNs, step, STEP);
  }

  /** Calls `action` at this time. Actions with the same time are called in the order of these calls. */
  callAt(timeNs: number, action: () => void): void {
    this.calls.set(this.nextCall, action);
    this.schedule(timeNs, this.nextCall, CALL);
    this.nextCall = (this.nextCall + 1) | 0;
  }

  private schedule(timeNs: number, actor: number, b: number): void {
    const { events } = this.world;
    events.due[0] = timeNs;
    events.push(EV_ACTOR, actor, b, 0);
  }

  private dispatch(actor: number, b: number): void {
    switch (b) {
      case COMPLETION: {
        const poller = this.pollers[actor];
        poller.core.completionVisible(poller.queue);
        return;
      }
      case CORE_POLLS: {
        const core = this.cores[actor];
        const queue = core.begin();
        if (queue < 0) return;
        this.pollersByCore[actor][queue].poll();
        core.plan();
        return;
      }
      case POST:
        (this.pollers[actor] as Poster).post();
        return;
      case START:
        (this.pollers[actor] as Poster).start();
        return;
      case OPEN:
        this.meters[actor].open();
        return;
      case CLOSE:
        this.meters[actor].close();
        return;
      case TICK:
        this.onTick(actor);
        return;
      case STEP:
        this.onStep(actor);
        return;
      case CALL:
        this.call(actor);
    }
  }

  private call(number: number): void {
    const action = this.calls.get(number);
    this.calls.delete(number);
    action?.();
  }
}
