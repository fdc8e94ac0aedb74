/**
 * Keeps a context below a number of requests a second, whatever the policy: of each queue pair only so many of the
 * requests that are posted may be issued, as if it were managed. Those behind are held, in their order, and its queue
 * pairs take turns, a request each. WAITs and ENABLEs are free.
 */
import { ISO_WR_ENABLE, ISO_WR_WAIT } from '../verbs/constants.ts';
import * as L from '../verbs/layout.ts';
import type { ShimContext } from './context.ts';
import type { ShimQp } from './qp-ledger.ts';
import { RequestBucket } from './request-bucket.ts';

/** What a limiter needs of the shim around it. */
export interface LimiterHost {
  nowNs(context: ShimContext): number;
  /** As of now; Infinity: no limit any more. */
  requestsPerS(context: ShimContext): number;
  /** `serve` is to be called then. */
  wakeAt(context: ShimContext, atNs: number): void;
  /** Some of its held requests may be issued. */
  feed(qp: ShimQp): void;
}

export class Limiter {
  private readonly context: ShimContext;
  private readonly host: LimiterHost;
  private readonly bucket: RequestBucket;
  /** Those with requests that have no token yet, the next one first. */
  private waiting: ShimQp[] = [];
  private isArmed = false;

  constructor(context: ShimContext, host: LimiterHost) {
    this.context = context;
    this.host = host;
    this.bucket = new RequestBucket(host.requestsPerS(context), host.nowNs(context));
  }

  private fill(): void {
    const { bucket, context, host } = this;
    bucket.fill(host.nowNs(context), host.requestsPerS(context));
  }

  /** Of requests that are being posted: how many, from the first on, may be issued at once. They are paid for. */
  admit(qp: ShimQp, words: Uint32Array, start: number, count: number): number {
    // Who failed is flushed at once; who waits stays behind those before it.
    if (this.isBehind(qp)) return 0;
    const n = qp.broken ? count : this.affordable(words, start, count);
    qp.licensed = (qp.appPosted + n) | 0;
    return n;
  }

  private affordable(words: Uint32Array, start: number, count: number): number {
    this.fill();
    const most = this.waiting.length > 0 ? 0 : this.bucket.available;
    let paid = 0;
    let n = 0;
    for (; n < count; n++) {
      if (isFree(words[L.slotAt(start + n) + L.WR_OP])) continue;
      if (paid >= most) break;
      paid++;
    }
    this.bucket.take(paid);
    return n;
  }

  /** The post is over: what was paid for and not taken is given back, and what was not paid for waits. */
  posted(qp: ShimQp): void {
    const over = (qp.licensed - qp.appPosted) | 0;
    if (over > 0) {
      this.bucket.take(-over);
      qp.licensed = qp.appPosted;
    }
    if (this.isBehind(qp) && !qp.isLimited) {
      qp.isLimited = true;
      this.waiting.push(qp);
    }
    this.arm();
  }

  /** Tokens may have come: those who wait get one each, in turns. */
  serve(): void {
    const { bucket } = this;
    this.fill();
    const served = new Set<ShimQp>();
    let left = bucket.available;
    let n = 0;
    const queue = this.waiting;
    // Served ones go to the end: the queue is read on while it grows.
    for (; n < queue.length && left > 0; n++) {
      const qp = queue[n];
      if (!this.isBehind(qp)) {
        qp.isLimited = false;
        continue;
      }
      left -= license(qp);
      served.add(qp);
      if (this.isBehind(qp)) queue.push(qp);
      else qp.isLimited = false;
    }
    this.waiting = queue.slice(n);
    bucket.take(bucket.available - left);
    for (const qp of served) this.host.feed(qp);
    this.arm();
  }

  /** There is no limit any more. */
  end(): void {
    const { waiting } = this;
    this.waiting = [];
    this.arm();
    for (const qp of waiting) {
      qp.isLimited = false;
      this.host.feed(qp);
    }
  }

  /** Whether it has requests that may not be issued yet; none, when they were flushed or it was reset. */
  private isBehind(qp: ShimQp): boolean {
    if (qp.broken || qp.backlog === 0) return false;
    if (((qp.issued - qp.licensed) | 0) > 0) qp.licensed = qp.issued;
    return ((qp.appPosted - qp.licensed) | 0) > 0;
  }

  private arm(): void {
    if (this.waiting.length === 0 && !this.isArmed) return;
    this.isArmed = this.waiting.length > 0;
    const atNs = this.waiting.length === 0 ? Number.POSITIVE_INFINITY : this.bucket.readyNs;
    this.host.wakeAt(this.context, atNs);
  }
}

/** One more request of it may be issued, and what is free behind and before that; returns what it costs. */
function license(qp: ShimQp): number {
  let paid = 0;
  while (((qp.appPosted - qp.licensed) | 0) > 0) {
    const isPaid = !isFree(qp.held[(qp.licensed & qp.mask) * qp.stride + L.WR_OP]);
    if (isPaid && paid === 1) break;
    if (isPaid) paid = 1;
    qp.licensed = (qp.licensed + 1) | 0;
  }
  return paid;
}

/** WAIT and ENABLE move no data. */
function isFree(op: number): boolean {
  const opcode = op & 0xff;
  return opcode === ISO_WR_WAIT || opcode === ISO_WR_ENABLE;
}
