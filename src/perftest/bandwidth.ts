/** Requests as fast as they go, and what arrives of them. Each step does what can be done now, and never waits. */
import { slotAt, WC_ID_HI, WC_ID_LO } from '../verbs/index.ts';
import type { End } from './end.ts';
import type { BandwidthReport } from './handshake.ts';
import { Requests } from './requests.ts';
import { Window } from './window.ts';

/** What a run does, again and again. */
export interface Party {
  /** What counts of it. */
  readonly window: Window;
  /** Whether it is done. */
  step(): boolean;
}

/** The end that posts. */
export class BandwidthSender implements Party {
  readonly window: Window;
  private readonly end: End;
  private readonly requests: Requests;
  private readonly total: number;
  /** By queue pair. */
  private readonly posted: Float64Array;
  private readonly done: Float64Array;
  /** When each was posted, and when it was known to be done; empty without a peak. */
  private readonly postedNs: Float64Array;
  private readonly doneNs: Float64Array;
  private totalPosted = 0;
  private totalDone = 0;

  constructor(end: End, sizeBytes: number) {
    const { qp, iters, noPeak } = end.settings;
    this.end = end;
    this.requests = new Requests(end, sizeBytes);
    this.window = new Window(end.settings, end.context.nowNs());
    this.total = this.window.byTime ? Number.POSITIVE_INFINITY : iters * qp;
    this.posted = new Float64Array(qp);
    this.done = new Float64Array(qp);
    this.postedNs = new Float64Array(noPeak ? 0 : iters * qp);
    this.doneNs = new Float64Array(noPeak ? 0 : iters * qp);
  }

  step(): boolean {
    const { posted, end } = this;
    for (let i = 0; i < posted.length; i++) this.fill(i);
    const n = end.poll(end.sendCq);
    if (n > 0) this.completed(n);
    return this.window.byTime ? this.window.ended(end.context) : this.totalDone >= this.total;
  }

  /** Nanoseconds a message at its best: between any post and any later completion. 0: not looked for. */
  bestNs(): number {
    const { postedNs, doneNs, total } = this;
    const { cqMod } = this.end.settings;
    let best = Number.POSITIVE_INFINITY;
    for (let i = 0; i < postedNs.length; i++) {
      // Completions come by `cqMod`, and with the last one.
      for (let j = Math.ceil((i + 1) / cqMod) * cqMod - 1; j < total; j += cqMod) {
        if (doneNs[j] > 0) best = Math.min(best, (doneNs[j] - postedNs[i]) / (j - i + 1));
      }
    }
    return Number.isFinite(best) && best > 0 ? best : 0;
  }

  /** Posts what there is room for on queue pair `index`. */
  private fill(index: number): void {
    const { end, posted, done, window } = this;
    const { txDepth, iters, post_list: list } = end.settings;
    const room = txDepth - (posted[index] - done[index]);
    const some = window.byTime ? room : Math.min(room, iters - posted[index]);
    const count = some - (some % list);
    if (count === 0) return;
    const { postedNs, totalPosted } = this;
    if (postedNs.length > 0) postedNs.fill(end.context.nowNs(), totalPosted, totalPosted + count);
    this.requests.post(index, count, !window.byTime && posted[index] + count === iters);
    posted[index] += count;
    this.totalPosted += count;
  }

  private completed(n: number): void {
    const { end, done, doneNs } = this;
    const { words } = end.wcs;
    const nowNs = end.context.nowNs();
    for (let i = 0; i < n; i++) {
      const at = slotAt(i);
      const index = words[at + WC_ID_HI];
      // Those before it, which were not signaled, are done too.
      const messages = (words[at + WC_ID_LO] - done[index]) >>> 0;
      done[index] += messages;
      this.totalDone += messages;
      if (doneNs.length > 0) doneNs[this.totalDone - 1] = nowNs;
      this.window.count(messages, nowNs);
    }
  }
}

/** The end that receives SENDs. */
export class BandwidthReceiver implements Party {
  readonly window: Window;
  private readonly end: End;
  private readonly total: number;
  /** Messages for each receive queue: that of a queue pair, or the shared one. */
  private readonly share: number;
  /** By receive queue: receives posted, and those taken that are not posted again yet. */
  private readonly posted: Float64Array;
  private readonly taken: Float64Array;
  private totalTaken = 0;
  private started = false;

  /** Posts the receives. */
  constructor(end: End, sizeBytes: number) {
    const { qp, iters, rxDepth } = end.settings;
    this.end = end;
    this.window = new Window(end.settings, end.context.nowNs());
    this.total = this.window.byTime ? Number.POSITIVE_INFINITY : iters * qp;
    const queues = end.receives.length;
    this.share = this.total / queues;
    this.posted = new Float64Array(queues);
    this.taken = new Float64Array(queues).fill(rxDepth);
    for (let i = 0; i < queues; i++) {
      end.writeReceives(i, sizeBytes);
      this.refill(i);
    }
  }

  step(): boolean {
    const { end, window } = this;
    const n = end.poll(end.recvCq);
    if (n > 0) this.arrived(n);
    return window.byTime ? window.ended(end.context) : this.totalTaken >= this.total;
  }

  private arrived(n: number): void {
    const { end, window, taken } = this;
    const { words } = end.wcs;
    const nowNs = end.context.nowNs();
    // What is received counts from the first message on.
    if (!this.started && !window.byTime) window.fromNs = nowNs;
    this.started = true;
    for (let i = 0; i < n; i++) taken[words[slotAt(i) + WC_ID_HI]]++;
    this.totalTaken += n;
    window.count(n, nowNs);
    for (let i = 0; i < taken.length; i++) if (taken[i] > 0) this.refill(i);
  }

  /** Posts again what was taken; by iterations no more than will come. */
  private refill(index: number): void {
    const { end, taken, posted } = this;
    const count = Math.min(taken[index], this.share - posted[index]);
    taken[index] = 0;
    if (count <= 0) return;
    end.postReceives(index, count);
    posted[index] += count;
  }
}

/** Several at once: both directions. */
export class Both implements Party {
  readonly window: Window;
  private readonly parties: readonly Party[];
  private readonly done: boolean[];

  constructor(parties: readonly Party[]) {
    this.parties = parties;
    this.window = parties[0].window;
    this.done = parties.map(() => false);
  }

  step(): boolean {
    const { parties, done } = this;
    for (let i = 0; i < parties.length; i++) done[i] = parties[i].step() || done[i];
    return !done.includes(false);
  }
}

/** What a run gave, in MiB/s or Gbit/s (2^20 and 125e6 bytes a second, as perftest has it). */
export function bandwidthOf(
  window: Window,
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
