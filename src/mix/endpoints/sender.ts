/** One queue pair of an application: posts batches, and another one after each completion it polls. */
import { BUSY_UNTIL, type Core, POST_START } from '../../sim/host/core.ts';
import type { RandomStream } from '../../sim/kernel/random.ts';
import * as V from '../../verbs/index.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { Dispatcher, Poster } from '../dispatcher.ts';
import { END, type Meter, START } from '../meter.ts';
import { drawOpcode, type OpDraw } from '../operations.ts';
import type { App } from '../resolve.ts';
import { drawBytes } from '../sizes.ts';
import type { Burst } from '../spec.ts';
import type { RegionBuffers } from './region-buffers.ts';

/** Completions taken per poll. */
export const POLL_BATCH = 16;
/** The word that holds the length of a request with one SGE, or of an inline request. */
export const LENGTH_WORD = V.WR_SGE0 + V.SGE_LENGTH;

/** The verbs objects that a sender uses. */
export interface SenderDevice {
  readonly qp: number;
  readonly cq: number;
  /** The ring with its batch of requests, which are written once. */
  readonly ring: number;
  readonly words: Uint32Array;
  /** The first slot of the batch. */
  readonly start: number;
  /** The buffers that its requests use; null: the one that was written. */
  readonly buffers: RegionBuffers | null;
  readonly wcRing: number;
  readonly wcWords: Uint32Array;
}

/** The meters of an application and of one queue pair; `own` is null unless the result has details. */
export interface SenderMeters {
  readonly all: Meter;
  readonly own: Meter | null;
}

/** The random numbers of a sender. */
export interface SenderRandom {
  readonly thinkTimes: RandomStream;
  readonly sizes: RandomStream;
  readonly operations: RandomStream;
}

export class Sender implements Poster {
  readonly core: Core;
  readonly queue: number;
  /** Its number among the pollers, which is the actor of its events. */
  readonly id: number;
  private readonly dispatcher: Dispatcher;
  protected readonly app: App;
  protected device: SenderDevice;
  protected readonly provider: Provider;
  private readonly meter: Meter;
  /** The meter of this queue pair alone; null unless the result has details. */
  readonly own: Meter | null;
  private readonly random: SenderRandom;
  /** The time at which the post call of each outstanding batch started; used cyclically. */
  private readonly postedAt: Float64Array;
  private postedBatches = 0;
  private completedBatches = 0;
  /** Completed requests; also the number of the next one to complete. */
  protected completedRequests = 0;
  protected failed = false;
  protected stopped = false;
  /** While it is not null, nothing is posted. */
  private drained: (() => void) | null = null;
  /** Batches that are due but not posted, because the queue pair is to be replaced. */
  private heldBatches = 0;
  /** Called after each poll. */
  onPolled: (() => void) | null = null;

  constructor(
    dispatcher: Dispatcher,
    id: number,
    app: App,
    device: SenderDevice,
    core: Core,
    meters: SenderMeters,
    random: SenderRandom,
  ) {
    this.dispatcher = dispatcher;
    this.id = id;
    this.app = app;
    this.device = device;
    this.core = core;
    this.queue = core.addQueue();
    this.provider = dispatcher.stacks.of(app.host).provider;
    this.meter = meters.all;
    this.own = meters.own;
    this.random = random;
    this.postedAt = new Float64Array(Math.floor(app.depth / app.batch));
  }

  /** Posts as many batches as may be outstanding. */
  start(): void {
    for (let i = 0; i < this.postedAt.length; i++) this.postNext();
  }

  /** Polls its completion queue, and posts a batch for each that completed. */
  poll(): void {
    const { core, device, meter } = this;
    if (this.stopped) {
      core.polled(this.queue, 0, false);
      return;
    }
    const n = this.provider.pollCq(device.cq, device.wcRing, 0, POLL_BATCH);
    core.polled(this.queue, n, n === POLL_BATCH);
    meter.times[END] = core.times[BUSY_UNTIL];
    let batches = 0;
    for (let i = 0; i < n; i++) batches += this.complete(V.slotAt(i));
    this.beforePosts();
    for (; batches > 0; batches--) this.postNext();
    this.onPolled?.();
    this.callIfDrained();
  }

  /** Called when completions have been counted and nothing is posted yet. */
  protected beforePosts(): void {}

  /** Posts a batch now, or as soon as the core is free. */
  post(): void {
    const { core, device, meter, dispatcher, app } = this;
    const nowNs = dispatcher.clock[0];
    const startNs = Math.max(core.times[BUSY_UNTIL], nowNs);
    if (this.failed || this.stopped || startNs >= app.stopNs) return;
    if (this.drained !== null) {
      this.heldBatches++;
      return;
    }
    if (app.burst !== null && this.pauses(startNs, app.burst)) return;
    if (app.minBytes < app.maxBytes) this.chooseSizes();
    if (app.opDraw !== null) this.chooseOperations(app.opDraw);
    device.buffers?.toRequests(device.words, device.start, app.batch);
    core.post(app.batch, true);
    this.postedAt[this.postedBatches % this.postedAt.length] = core.times[POST_START];
    dispatcher.cpuAhead[0] = core.times[BUSY_UNTIL] - nowNs;
    const n = this.provider.postSend(device.qp, device.ring, device.start, app.batch);
    dispatcher.cpuAhead[0] = 0;
    if (n !== app.batch) throw new Error(`${app.name}: the device accepted ${n} of ${app.batch} requests`);
    this.postedBatches++;
    meter.posted += n;
    meter.outstanding += n;
  }

  /** Posts later if this time is in a pause. */
  private pauses(timeNs: number, { burstNs, pauseNs }: Burst): boolean {
    const { startNs } = this.app;
    const periodNs = burstNs + pauseNs;
    const periods = Math.floor((timeNs - startNs) / periodNs);
    const nextNs = startNs + (periods + 1) * periodNs;
    // Rounding may put the start of a period before itself.
    if (timeNs - startNs - periods * periodNs < burstNs || nextNs <= timeNs) return false;
    this.dispatcher.postAt(nextNs, this.id);
    return true;
  }

  /** Posts nothing more, and calls `drained` once isDrained, and after each further poll until resume(). */
  drain(drained: () => void): void {
    this.drained = drained;
    this.callIfDrained();
  }

  private callIfDrained(): void {
    if (this.isDrained) this.drained?.();
  }

  /** Whether it can be replaced: nothing is outstanding, and nothing has failed. */
  get isDrained(): boolean {
    return this.drained !== null && this.outstanding === 0 && !this.failed && !this.stopped;
  }

  /** Uses another queue pair from now on. */
  moveTo(device: SenderDevice): void {
    this.device = device;
    this.postedBatches = 0;
    this.completedBatches = 0;
    this.completedRequests = 0;
  }

  /** Continues after drain() with what was due meanwhile. */
  resume(): void {
    this.drained = null;
    const due = this.heldBatches;
    this.heldBatches = 0;
    for (let i = 0; i < due; i++) this.post();
  }

  /** Touches its queue pair no more. */
  stop(): void {
    this.stopped = true;
  }

  /** Limits the rate of its queue pair from now on; 0: no limit. */
  limitRate(rateGbps: number): void {
    if (!this.failed && !this.stopped) limitRate(this.provider, this.device.qp, rateGbps);
  }

  /** Posts the next batch, after the application's think time if it has one. */
  private postNext(): void {
    const { thinkNs } = this.app;
    if (thinkNs === 0) {
      this.post();
      return;
    }
    const fromNs = Math.max(this.core.times[BUSY_UNTIL], this.dispatcher.clock[0]);
    this.dispatcher.postAt(fromNs + this.random.thinkTimes.exponential(thinkNs), this.id);
  }

  /** Counts one completion; returns how many batches it completed (0 after a failure). */
  protected complete(at: number): number {
    const words = this.device.wcWords;
    // A completion also stands for the unsignaled requests before it.
    const messages = (words[at + V.WC_SEQ] + 1 - this.completedRequests) | 0;
    if ((words[at + V.WC_OP] & 0xff) !== V.IBV_WC_SUCCESS) {
      this.fail(messages);
      return 0;
    }
    this.count(messages, true);
    return 1;
  }

  /** Counts messages that failed; nothing is posted any more. */
  protected fail(messages: number): void {
    const { meter, own } = this;
    this.failed = true;
    this.completedRequests = (this.completedRequests + messages) | 0;
    meter.outstanding -= messages;
    meter.errors += messages;
    if (own !== null) own.errors += messages;
  }

  /** Counts messages that completed, of the batch that is completing. @param ends whether they are its last ones */
  protected count(messages: number, ends: boolean): void {
    const { meter, postedAt } = this;
    this.completedRequests = (this.completedRequests + messages) | 0;
    meter.outstanding -= messages;
    meter.times[START] = postedAt[this.completedBatches % postedAt.length];
    if (ends) this.completedBatches++;
    meter.complete(messages);
    if (this.own !== null) {
      this.own.times[START] = meter.times[START];
      this.own.times[END] = meter.times[END];
      this.own.complete(messages);
    }
  }

  /** Requests that are posted and neither completed nor failed. */
  protected get outstanding(): number {
    return (this.postedBatches * this.app.batch - this.completedRequests) | 0;
  }

  private chooseSizes(): void {
    const { app, device } = this;
    const { sizes } = this.random;
    for (let i = 0; i < app.batch; i++) {
      device.words[V.slotAt(device.start + i) + LENGTH_WORD] = drawBytes(app, sizes.next());
    }
  }

  private chooseOperations(draw: OpDraw): void {
    const { app, device } = this;
    const { operations } = this.random;
    for (let i = 0; i < app.batch; i++) {
      const at = V.slotAt(device.start + i) + V.WR_OP;
      device.words[at] = (device.words[at] & ~0xff) | drawOpcode(draw, operations.next());
    }
  }
}

/** Limits the rate of a queue pair; 0: no limit. */
export function limitRate(provider: Provider, qp: number, rateGbps: number): void {
  const rateLimitKbps = rateGbps === 0 ? 0 : Math.max(1, Math.round(rateGbps * 1e6));
  provider.modifyQpRateLimit(qp, { rateLimitKbps });
}
