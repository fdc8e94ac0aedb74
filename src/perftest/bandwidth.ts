/** The workloads of bandwidth tests: sending requests as fast as possible, and receiving them. A step never blocks. */
import { slotAt, WC_ID_HI, WC_ID_LO } from '../verbs/index.ts';
import type { Endpoint } from './endpoint.ts';
import type { BandwidthReport } from './handshake.ts';
import { MeasuringWindow } from './measuring-window.ts';
import { Requests } from './requests.ts';

/** One end's part in a test, driven step by step. */
export interface Workload {
  /** The counts of the measuring window. */
  readonly window: MeasuringWindow;
  /** Does what is possible now; returns whether the workload is complete. */
  step(): boolean;
}

/** Posts requests and counts their completions. */
export class BandwidthSender implements Workload {
  readonly window: MeasuringWindow;
  private readonly endpoint: Endpoint;
  private readonly requests: Requests;
  private readonly total: number;
  /** Requests by queue pair. */
  private readonly posted: Float64Array;
  private readonly completed: Float64Array;
  /** The times at which each request was posted and was known to be complete; empty if no peak is computed. */
  private readonly postedNs: Float64Array;
  private readonly completedNs: Float64Array;
  private totalPosted = 0;
  private totalCompleted = 0;

  constructor(endpoint: Endpoint, sizeBytes: number) {
    const { qp, iters, noPeak } = endpoint.settings;
    this.endpoint = endpoint;
    this.requests = new Requests(endpoint, sizeBytes);
    this.window = new MeasuringWindow(endpoint.settings, endpoint.context.nowNs());
    this.total = this.window.byTime ? Number.POSITIVE_INFINITY : iters * qp;
    this.posted = new Float64Array(qp);
    this.completed = new Float64Array(qp);
    this.postedNs = new Float64Array(noPeak ? 0 : iters * qp);
    this.completedNs = new Float64Array(noPeak ? 0 : iters * qp);
  }

  step(): boolean {
    const { posted, endpoint } = this;
    for (let i = 0; i < posted.length; i++) this.fill(i);
    const n = endpoint.poll(endpoint.sendCq);
    if (n > 0) this.recordCompletions(n);
    return this.window.byTime ? this.window.ended(endpoint.context) : this.totalCompleted >= this.total;
  }

  /** The peak: fewest nanoseconds per message between any post and any later completion. 0: not computed. */
  bestNs(): number {
    const { postedNs, completedNs, total } = this;
    const { cqMod } = this.endpoint.settings;
    let best = Number.POSITIVE_INFINITY;
    for (let i = 0; i < postedNs.length; i++) {
      // Only every `cqMod`th request and the last one have a completion.
      for (let j = Math.ceil((i + 1) / cqMod) * cqMod - 1; j < total; j += cqMod) {
        if (completedNs[j] > 0) best = Math.min(best, (completedNs[j] - postedNs[i]) / (j - i + 1));
      }
    }
    return Number.isFinite(best) && best > 0 ? best : 0;
  }

  /** Posts as many requests as fit on queue pair `index`. */
  private fill(index: number): void {
    const { endpoint, posted, completed, window } = this;
    const { txDepth, iters, post_list: list } = endpoint.settings;
    const room = txDepth - (posted[index] - completed[index]);
    const some = window.byTime ? room : Math.min(room, iters - posted[index]);
    const count = some - (some % list);
    if (count === 0) return;
    const { postedNs, totalPosted } = this;
    if (postedNs.length > 0) postedNs.fill(endpoint.context.nowNs(), totalPosted, totalPosted + count);
    this.requests.post(index, count, !window.byTime && posted[index] + count === iters);
    posted[index] += count;
    this.totalPosted += count;
  }

  private recordCompletions(n: number): void {
    const { endpoint, completed, completedNs } = this;
    const { words } = endpoint.wcs;
    const nowNs = endpoint.context.nowNs();
    for (let i = 0; i < n; i++) {
      const at = slotAt(i);
      const index = words[at + WC_ID_HI];
      // A completion also stands for the unsignaled requests before it.
      const messages = (words[at + WC_ID_LO] - completed[index]) >>> 0;
      completed[index] += messages;
      this.totalCompleted += messages;
      if (completedNs.length > 0) completedNs[this.totalCompleted - 1] = nowNs;
      this.window.count(messages, nowNs);
    }
  }
}

/** Receives SENDs, and WRITEs with immediate data. */
export class BandwidthReceiver implements Workload {
  readonly window: MeasuringWindow;
  private readonly endpoint: Endpoint;
  private readonly total: number;
  /** Messages per receive queue (that of a queue pair, or the shared one). */
  private readonly perQueue: number;
  /** By receive queue: receives posted, and receives consumed but not yet reposted. */
  private readonly posted: Float64Array;
  private readonly consumed: Float64Array;
  private totalConsumed = 0;
  private started = false;

  /** Writes and posts the receives. */
  constructor(endpoint: Endpoint, sizeBytes: number) {
    const { qp, iters, rxDepth } = endpoint.settings;
    this.endpoint = endpoint;
    this.window = new MeasuringWindow(endpoint.settings, endpoint.context.nowNs());
    this.total = this.window.byTime ? Number.POSITIVE_INFINITY : iters * qp;
    const queues = endpoint.receives.length;
    this.perQueue = this.total / queues;
    this.posted = new Float64Array(queues);
    this.consumed = new Float64Array(queues).fill(rxDepth);
    for (let i = 0; i < queues; i++) {
      endpoint.writeReceives(i, sizeBytes);
      this.refill(i);
    }
  }

  step(): boolean {
    const { endpoint, window } = this;
    const n = endpoint.poll(endpoint.recvCq);
    if (n > 0) this.recordArrivals(n);
    return window.byTime ? window.ended(endpoint.context) : this.totalConsumed >= this.total;
  }

  private recordArrivals(n: number): void {
    const { endpoint, window, consumed } = this;
    const { words } = endpoint.wcs;
    const nowNs = endpoint.context.nowNs();
    // The measured time starts with the first message.
    if (!this.started && !window.byTime) window.fromNs = nowNs;
    this.started = true;
    for (let i = 0; i < n; i++) consumed[words[slotAt(i) + WC_ID_HI]]++;
    this.totalConsumed += n;
    window.count(n, nowNs);
    for (let i = 0; i < consumed.length; i++) if (consumed[i] > 0) this.refill(i);
  }

  /**
   * Reposts consumed receives; with a given number of iterations, no more than the number of messages still to come.
   */
  private refill(index: number): void {
    const { endpoint, consumed, posted } = this;
    const count = Math.min(consumed[index], this.perQueue - posted[index]);
    consumed[index] = 0;
    if (count <= 0) return;
    endpoint.postReceives(index, count);
    posted[index] += count;
  }
}

/** Several workloads at once, for both directions. */
export class Combined implements Workload {
  readonly window: MeasuringWindow;
  private readonly workloads: readonly Workload[];
  private readonly done: boolean[];

  constructor(workloads: readonly Workload[]) {
    this.workloads = workloads;
    this.window = workloads[0].window;
    this.done = workloads.map(() => false);
  }

  step(): boolean {
    const { workloads, done } = this;
    for (let i = 0; i < workloads.length; i++) done[i] = workloads[i].step() || done[i];
    return !done.includes(false);
  }
}

/** The result of a run, in MiB/s or Gbit/s (2^20 or 125e6 bytes per second, as in perftest). */
export function bandwidthOf(
  window: Pick<MeasuringWindow, 'messages' | 'fromNs' | 'toNs'>,
  sizeBytes: number,
  options: { gbits: boolean; bestNs: number },
): BandwidthReport {
  const unit = options.gbits ? 125e6 : 2 ** 20;
  const seconds = (window.toNs - window.fromNs) / 1e9;
  const perS = seconds > 0 ? window.messages / seconds : 0;
  return {
    sizeBytes,
    iters: window.messages,
    peak: options.bestNs > 0 ? (sizeBytes * 1e9) / options.bestNs / unit : 0,
    average: (perS * sizeBytes) / unit,
    messageRate: perS / 1e6,
  };
}
