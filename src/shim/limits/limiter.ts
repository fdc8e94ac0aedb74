/**
 * Keeps a context below a number of requests per second, under any policy. Each queue pair has a license: the requests
 * that may be issued, as with a managed queue pair. Requests beyond it are held in order, and the waiting queue pairs
 * are licensed in rounds, one request each. WAITs and ENABLEs are free.
 */
import { ISO_WR_ENABLE, ISO_WR_WAIT } from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import type { RequestLimiter, ShimContext } from '../context.ts';
import type { QpLedger } from '../qp-ledger.ts';
import { Bucket } from './bucket.ts';

/** The most unused tokens: this fraction of a second's worth, but at least a few. */
const BURST_S = 0.01;
const LEAST_BURST = 4;
const NS_PER_S = 1e9;

/** A token for each request. */
export class RequestBucket {
  private readonly bucket: Bucket;

  constructor(requestsPerS: number, nowNs: number) {
    this.bucket = new Bucket({ burst: LEAST_BURST, nowNs });
    this.fill(nowNs, requestsPerS);
  }

  get burst(): number {
    return this.bucket.burst;
  }

  /** Adds the tokens earned until now at the previous rate, and sets the rate; Infinity for no limit. */
  fill(nowNs: number, requestsPerS: number): void {
    this.bucket.fill(nowNs);
    this.bucket.setRate(requestsPerS / NS_PER_S);
    this.bucket.setBurst(Math.max(LEAST_BURST, requestsPerS * BURST_S));
  }

  /** Whole tokens at the last `fill`. */
  get available(): number {
    return Math.floor(this.bucket.tokens);
  }

  take(requests: number): void {
    this.bucket.take(requests);
  }

  /** The time at which the next token will be whole. */
  get readyNs(): number {
    // One nanosecond later: after rounding, the token might not be whole yet.
    return this.bucket.readyNs(1) + 1;
  }
}

/** The functions of the shim that a limiter uses. */
export interface LimiterHost {
  nowNs(context: ShimContext): number;
  /** The current limit; Infinity if there no longer is one. */
  requestsPerS(context: ShimContext): number;
  /** `serve` must be called at this time. */
  setTimer(context: ShimContext, atNs: number): void;
  /** Some held requests of the queue pair may be issued. */
  feed(qp: QpLedger): void;
}

export class Limiter implements RequestLimiter {
  private readonly context: ShimContext;
  private readonly host: LimiterHost;
  private readonly bucket: RequestBucket;
  /** Queue pairs with requests that have no token yet, the next one to serve first. */
  private waiting: QpLedger[] = [];
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

  /** Takes a token for each request that it admits. */
  admit(qp: QpLedger, words: Uint32Array, start: number, count: number): number {
    // Requests of a failed queue pair are flushed at once; new requests stay behind waiting ones.
    if (this.hasUnlicensed(qp)) return 0;
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

  /** Returns the tokens of requests that the device did not accept, and lets requests without a token wait. */
  posted(qp: QpLedger): void {
    const over = (qp.licensed - qp.appPosted) | 0;
    if (over > 0) {
      this.bucket.take(-over);
      qp.licensed = qp.appPosted;
    }
    if (this.hasUnlicensed(qp) && !qp.isLimited) {
      qp.isLimited = true;
      this.waiting.push(qp);
    }
    this.arm();
  }

  /** Gives the tokens that have arrived to the waiting queue pairs, one request each in rounds. */
  serve(): void {
    const { bucket } = this;
    this.fill();
    const served = new Set<QpLedger>();
    let left = bucket.available;
    let n = 0;
    const queue = this.waiting;
    // A served queue pair goes to the end of the queue, which grows while it is read.
    for (; n < queue.length && left > 0; n++) {
      const qp = queue[n];
      if (!this.hasUnlicensed(qp)) {
        qp.isLimited = false;
        continue;
      }
      left -= license(qp);
      served.add(qp);
      if (this.hasUnlicensed(qp)) queue.push(qp);
      else qp.isLimited = false;
    }
    this.waiting = queue.slice(n);
    bucket.take(bucket.available - left);
    for (const qp of served) this.host.feed(qp);
    this.arm();
  }

  end(): void {
    const { waiting } = this;
    this.waiting = [];
    this.arm();
    for (const qp of waiting) {
      qp.isLimited = false;
      this.host.feed(qp);
    }
  }

  /** Whether the queue pair holds requests that may not be issued yet. After a flush or a reset it holds none. */
  private hasUnlicensed(qp: QpLedger): boolean {
    if (qp.broken || qp.backlog === 0) return false;
    if (((qp.issued - qp.licensed) | 0) > 0) qp.licensed = qp.issued;
    return ((qp.appPosted - qp.licensed) | 0) > 0;
  }

  private arm(): void {
    if (this.waiting.length === 0 && !this.isArmed) return;
    this.isArmed = this.waiting.length > 0;
    const atNs = this.waiting.length === 0 ? Number.POSITIVE_INFINITY : this.bucket.readyNs;
    this.host.setTimer(this.context, atNs);
  }
}

/**
 * Licenses one more request, and the free requests before and after it; returns the number of tokens that this costs.
 */
function license(qp: QpLedger): number {
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
