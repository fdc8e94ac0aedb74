/** One queue pair of an application: posts batches, and another one after each completion it polls. */
import { BUSY_UNTIL, type Core, POST_START } from '../sim/host/core.ts';
import type { RandomStream } from '../sim/kernel/random.ts';
import * as V from '../verbs/index.ts';
import type { Provider } from '../verbs/provider.ts';
import type { Dispatcher, Poster } from './dispatcher.ts';
import { END, type Meter, START } from './meter.ts';
import type { App } from './resolve.ts';
import { drawBytes } from './sizes.ts';

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
  readonly wcRing: number;
  readonly wcWords: Uint32Array;
}

export class Sender implements Poster {
  readonly core: Core;
  readonly queue: number;
  /** Its number among the pollers: the actor of its events. */
  readonly id: number;
  private readonly dispatcher: Dispatcher;
  private readonly app: App;
  private readonly device: SenderDevice;
  private readonly provider: Provider;
  private readonly meter: Meter;
  /** Of this queue pair alone; null unless the result has details. */
  private readonly own: Meter | null;
  private readonly thinkTimes: RandomStream;
  private readonly sizes: RandomStream;
  /** When the post call of each outstanding batch started; used cyclically. */
  private readonly postedAt: Float64Array;
  private postedBatches = 0;
  private completedBatches = 0;
  /** Completed requests; also the number of the next one to complete. */
  private completedRequests = 0;
  private failed = false;

  constructor(
    dispatcher: Dispatcher,
    id: number,
    app: App,
    device: SenderDevice,
    core: Core,
    meters: { all: Meter; own: Meter | null },
    random: { thinkTimes: RandomStream; sizes: RandomStream },
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
    this.thinkTimes = random.thinkTimes;
    this.sizes = random.sizes;
    this.postedAt = new Float64Array(Math.floor(app.depth / app.batch));
  }

  /** Posts as many batches as may be outstanding. */
  start(): void {
    for (let i = 0; i < this.postedAt.length; i++) this.postNext();
  }

  /** Polls its completion queue, and posts a batch for each that completed. */
  poll(): void {
    const { core, device, meter } = this;
    const n = this.provider.pollCq(device.cq, device.wcRing, 0, POLL_BATCH);
    core.polled(this.queue, n, n === POLL_BATCH);
    meter.times[END] = core.times[BUSY_UNTIL];
    let batches = 0;
    for (let i = 0; i < n; i++) batches += this.complete(V.slotAt(i));
    for (; batches > 0; batches--) this.postNext();
  }

  /** Posts a batch now, or as soon as the core is free. */
  post(): void {
    const { core, device, meter, dispatcher, app } = this;
    const nowNs = dispatcher.clock[0];
    if (this.failed || Math.max(core.times[BUSY_UNTIL], nowNs) >= app.stopNs) return;
    if (app.minBytes < app.maxBytes) this.chooseSizes();
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

  /** Posts the next batch, after the application's think time if it has one. */
  private postNext(): void {
    const { thinkNs } = this.app;
    if (thinkNs === 0) {
      this.post();
      return;
    }
    const fromNs = Math.max(this.core.times[BUSY_UNTIL], this.dispatcher.clock[0]);
    this.dispatcher.postAt(fromNs + this.thinkTimes.exponential(thinkNs), this.id);
  }

  /** Counts one completion; returns how many batches it completed (0 after a failure). */
  private complete(at: number): number {
    const { meter, postedAt } = this;
    const words = this.device.wcWords;
    // It also completes the unsignaled requests before it.
    const messages = (words[at + V.WC_SEQ] + 1 - this.completedRequests) | 0;
    this.completedRequests = (this.completedRequests + messages) | 0;
    meter.outstanding -= messages;
    if ((words[at + V.WC_OP] & 0xff) !== V.IBV_WC_SUCCESS) {
      this.failed = true;
      meter.errors += messages;
      if (this.own !== null) this.own.errors += messages;
      return 0;
    }
    meter.times[START] = postedAt[this.completedBatches % postedAt.length];
    this.completedBatches++;
    meter.complete(messages);
    if (this.own !== null) {
      this.own.times[START] = meter.times[START];
      this.own.times[END] = meter.times[END];
      this.own.complete(messages);
    }
    return 1;
  }

  private chooseSizes(): void {
    const { app, device, sizes } = this;
    for (let i = 0; i < app.batch; i++) {
      device.words[V.slotAt(device.start + i) + LENGTH_WORD] = drawBytes(app, sizes.next());
    }
  }
}
