/** One queue pair of an application: posts a batch, and after each polled completion the next one. */
import { BUSY_UNTIL, type Core, POST_START } from '../sim/host/core.ts';
import type { RandomStream } from '../sim/kernel/random.ts';
import * as V from '../verbs/index.ts';
import type { Dispatcher, Poster } from './dispatcher.ts';
import { END, type Meter, START } from './meter.ts';
import type { App } from './resolve.ts';

/** Completions that one poll takes. */
export const POLL_BATCH = 16;
/** Where the length of a request of one element stands, and that of an inline one too. */
export const LENGTH_WORD = V.WR_SGE0 + V.SGE_LENGTH;

/** What it uses of the device. */
export interface SenderDevice {
  readonly qp: number;
  readonly cq: number;
  /** Its batch of requests, written once. */
  readonly ring: number;
  readonly words: Uint32Array;
  /** Its first slot. */
  readonly start: number;
  readonly wcRing: number;
  readonly wcWords: Uint32Array;
}

export class Sender implements Poster {
  readonly core: Core;
  readonly queue: number;
  /** Its number among the actors. */
  readonly id: number;
  private readonly dispatcher: Dispatcher;
  private readonly app: App;
  private readonly device: SenderDevice;
  private readonly meter: Meter;
  /** Of think times and of sizes. */
  private readonly thinkTimes: RandomStream;
  private readonly sizes: RandomStream;
  /** Start of the post call of each batch that is outstanding: a ring. */
  private readonly postedAt: Float64Array;
  private postedBatches = 0;
  private completedBatches = 0;
  /** Requests that completed: the number of the next one that will. */
  private completedRequests = 0;
  private failed = false;

  constructor(
    dispatcher: Dispatcher,
    id: number,
    app: App,
    device: SenderDevice,
    core: Core,
    meter: Meter,
    random: { thinkTimes: RandomStream; sizes: RandomStream },
  ) {
    this.dispatcher = dispatcher;
    this.id = id;
    this.app = app;
    this.device = device;
    this.core = core;
    this.queue = core.addQueue();
    this.meter = meter;
    this.thinkTimes = random.thinkTimes;
    this.sizes = random.sizes;
    this.postedAt = new Float64Array(Math.floor(app.depth / app.batch));
  }

  /** Its first posts: as many as may be outstanding. */
  start(): void {
    for (let i = 0; i < this.postedAt.length; i++) this.postNext();
  }

  /** A poll of its completion queue begins now. */
  poll(): void {
    const { core, device, meter } = this;
    const n = this.dispatcher.provider.pollCq(device.cq, device.wcRing, 0, POLL_BATCH);
    core.polled(this.queue, n, n === POLL_BATCH);
    meter.times[END] = core.times[BUSY_UNTIL];
    let batches = 0;
    for (let i = 0; i < n; i++) batches += this.complete(V.slotAt(i));
    for (; batches > 0; batches--) this.postNext();
  }

  /** Posts a batch: now, or as soon as its core is free. */
  post(): void {
    const { core, device, meter, dispatcher, app } = this;
    const nowNs = dispatcher.clock[0];
    if (this.failed || Math.max(core.times[BUSY_UNTIL], nowNs) >= app.stopNs) return;
    if (app.minBytes < app.maxBytes) this.chooseSizes();
    core.post(app.batch, true);
    this.postedAt[this.postedBatches % this.postedAt.length] = core.times[POST_START];
    dispatcher.cpuAhead[0] = core.times[BUSY_UNTIL] - nowNs;
    const n = dispatcher.provider.postSend(device.qp, device.ring, device.start, app.batch);
    dispatcher.cpuAhead[0] = 0;
    if (n !== app.batch) throw new Error(`${app.name}: ${n} of ${app.batch} requests were taken`);
    this.postedBatches++;
    meter.posted += n;
    meter.outstanding += n;
  }

  /** Posts the next batch, after a pause if it thinks. */
  private postNext(): void {
    const { thinkNs } = this.app;
    if (thinkNs === 0) {
      this.post();
      return;
    }
    const fromNs = Math.max(this.core.times[BUSY_UNTIL], this.dispatcher.clock[0]);
    this.dispatcher.postAt(fromNs + this.thinkTimes.exponential(thinkNs), this.id);
  }

  /** Counts one completion; returns how many batches it ends. */
  private complete(at: number): number {
    const { meter, postedAt } = this;
    const words = this.device.wcWords;
    // It ends those before it too, which were not signaled.
    const messages = (words[at + V.WC_SEQ] + 1 - this.completedRequests) | 0;
    this.completedRequests = (this.completedRequests + messages) | 0;
    meter.outstanding -= messages;
    if ((words[at + V.WC_OP] & 0xff) !== V.IBV_WC_SUCCESS) {
      this.failed = true;
      meter.errors += messages;
      return 0;
    }
    meter.times[START] = postedAt[this.completedBatches % postedAt.length];
    this.completedBatches++;
    meter.complete(messages);
    return 1;
  }

  private chooseSizes(): void {
    const { app, device, sizes } = this;
    const choices = app.maxBytes - app.minBytes + 1;
    for (let i = 0; i < app.batch; i++) {
      device.words[V.slotAt(device.start + i) + LENGTH_WORD] =
        app.minBytes + Math.floor(sizes.next() * choices);
    }
  }
}
