/**
 * A core of a simulated host. It polls its completion queues in turn, endlessly, and is interrupted only by
 * posts. Its state is the time until which it is busy. A poll that finds nothing needs no event, because the
 * time of the next poll of a queue follows from that state and the cost of a miss.
 */
import { EV_ACTOR } from '../kernel/event-kinds.ts';
import { RandomStream } from '../kernel/random.ts';
import type { World } from '../world.ts';

// Indexes of Core.times.
/** End of the current work; from here on the core polls without finding anything. */
export const BUSY_UNTIL = 0;
/** The time at which the last post call began. */
export const POST_START = 1;
/** The time at which the next successful poll begins; Infinity if none is known. */
const POLL_AT = 2;

/** Value of b in EV_ACTOR for the events of a core. */
export const CORE_POLLS = 1;

export class Core {
  /** BUSY_UNTIL, POST_START, POLL_AT. */
  readonly times = new Float64Array([0, 0, Number.POSITIVE_INFINITY]);
  private readonly id: number;
  private readonly world: World;
  private readonly random: RandomStream;
  /** Cost of a stack's interceptors per request or completion. */
  private readonly interceptNs: number;
  /** By queue: completions that became visible since the queue's last poll. */
  private found: Int32Array = new Int32Array(0);
  /** Queues with such completions. */
  private waiting = 0;
  /** The queue polled at BUSY_UNTIL, and the one polled at POLL_AT. */
  private position = 0;
  private pollQueue = -1;

  /** @param id actor of the core's events @param seed seed of its jitter */
  constructor(world: World, id: number, seed: number, interceptors: number) {
    this.world = world;
    this.id = id;
    this.random = new RandomStream(seed, 'host', id);
    this.interceptNs = world.params.interceptorWrNs * interceptors;
  }

  /** Adds a queue to poll. Returns its index. */
  addQueue(): number {
    this.found = new Int32Array(this.found.length + 1);
    return this.found.length - 1;
  }

  /** A completion of this queue became visible now. */
  completionVisible(queue: number): void {
    this.found[queue]++;
    if (this.found[queue] > 1) return;
    this.waiting++;
    this.consider(queue);
  }

  /** Handles the core's event. Returns the queue to poll, or -1 when the event is stale. */
  begin(): number {
    const { times } = this;
    const nowNs = this.world.clock[0];
    if (times[POLL_AT] !== nowNs) return -1;
    times[POLL_AT] = Number.POSITIVE_INFINITY;
    if (times[BUSY_UNTIL] <= nowNs) return this.pollQueue;
    // A post happened in the meantime.
    this.plan();
    return -1;
  }

  /** The poll that began now returned `count` completions. `more` tells whether the queue may have others. */
  polled(queue: number, count: number, more: boolean): void {
    const { times, world, found } = this;
    const { pollHitNs, pollMissNs } = world.params;
    const hitsNs = count * pollHitNs + found[queue] * this.interceptNs;
    // A policy may have used this core in the meantime.
    const fromNs = Math.max(world.clock[0], times[BUSY_UNTIL]);
    times[BUSY_UNTIL] = fromNs + (count === 0 ? pollMissNs : 0) + hitsNs * this.jitter();
    found[queue] = more ? 1 : 0;
    if (!more) this.waiting--;
    this.position = queue + 1 === found.length ? 0 : queue + 1;
  }

  /** Charges a post call of `count` requests, once the core is free: from POST_START to BUSY_UNTIL. */
  post(count: number, doorbell: boolean): void {
    const { times, world } = this;
    const { postCallNs, postWrNs, doorbellNs } = world.params;
    const startNs = Math.max(times[BUSY_UNTIL], world.clock[0]);
    const costNs = postCallNs + count * (postWrNs + this.interceptNs) + (doorbell ? doorbellNs : 0);
    times[POST_START] = startNs;
    times[BUSY_UNTIL] = startNs + costNs * this.jitter();
  }

  /** Stands still for this long from now on, and does the work that it had begun afterwards. */
  stall(stallNs: number): void {
    this.times[BUSY_UNTIL] = Math.max(this.times[BUSY_UNTIL], this.world.clock[0]) + stallNs;
  }

  /** Schedules the next successful poll. Called after the application handled a completion. */
  plan(): void {
    if (this.waiting === 0) return;
    for (let queue = 0; queue < this.found.length; queue++) {
      if (this.found[queue] > 0) this.consider(queue);
    }
  }

  /** Schedules the poll of this queue if it comes before the one planned. */
  private consider(queue: number): void {
    const { times, world } = this;
    const nowNs = world.clock[0];
    const { pollMissNs } = world.params;
    const queues = this.found.length;
    let at = times[BUSY_UNTIL] + ((queue - this.position + queues) % queues) * pollMissNs;
    if (at < nowNs) {
      const roundNs = queues * pollMissNs;
      at = Math.max(nowNs, at + Math.ceil((nowNs - at) / roundNs) * roundNs);
    }
    if (at >= times[POLL_AT]) return;
    times[POLL_AT] = at;
    this.pollQueue = queue;
    world.events.due[0] = at;
    world.events.push(EV_ACTOR, this.id, CORE_POLLS, 0);
  }

  private jitter(): number {
    const { hostJitter } = this.world.params;
    return hostJitter === 0 ? 1 : 1 + hostJitter * (2 * this.random.next() - 1);
  }
}
