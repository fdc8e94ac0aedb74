/**
 * Keeps a context below a number of requests per second, under any policy. Each queue pair has a license: the requests
 * that may be issued, as with a managed queue pair. Requests beyond it are held in order, and the queue pairs that wait
 * are licensed in rounds, one request each. WAITs and ENABLEs are free.
 */
import { ISO_WR_ENABLE, ISO_WR_WAIT } from '../verbs/constants.ts';
import * as L from '../verbs/layout.ts';
import type { RequestLimiter, ShimContext } from './context.ts';
import type { QpLedger } from './qp-ledger.ts';

/** Unused tokens that may be saved: this much of a second's, and at least a few. */
const BURST_S = 0.01;
const LEAST_BURST = 4;
const NS_PER_S = 1e9;
/**
 * Stands for no limit. A limit may be lifted to infinity while it is enforced; arithmetic with infinity would leave a
 * NaN here for good.
 */
const MOST_PER_S = 1e12;

/** Tokens that come with time, up to a burst, one for each request. The number may become negative. */
export class RequestBucket {
  private tokens = LEAST_BURST;
  private atNs: number;
  private perS: number;

  constructor(requestsPerS: number, nowNs: number) {
    this.perS = Math.min(requestsPerS, MOST_PER_S);
    this.atNs = nowNs;
  }

  get burst(): number {
    return Math.max(LEAST_BURST, this.perS * BURST_S);
  }

  /** Adds the tokens that came until now, at the previous rate, and sets the rate. */
  fill(nowNs: number, requestsPerS: number): void {
    const more = (Math.max(0, nowNs - this.atNs) * this.perS) / NS_PER_S;
    this.atNs = nowNs;
    this.perS = Math.min(requestsPerS, MOST_PER_S);
    this.tokens = Math.min(this.burst, this.tokens + more);
  }

  /** Whole tokens at the last `fill`. */
  get available(): number {
    return Math.floor(this.tokens);
  }

  take(requests: number): void {
    this.tokens -= requests;
  }

  /** When the next token will be whole. */
  get readyNs(): number {
    // One nanosecond later: after rounding, the token might not be whole yet.
    return this.atNs + Math.max(0, ((1 - this.tokens) * NS_PER_S) / this.perS) + 1;
  }
}

/** What a limiter needs of the shim around it. */
export interface LimiterHost {
  nowNs(context: ShimContext): number;
  /** The limit at present; Infinity: none any more. */
  requestsPerS(context: ShimContext): number;
  /** `serve` must be called at this time. */
  setTimer(context: ShimContext, atNs: number): void;
  /** Some of its held requests may be issued. */
  feed(qp: QpLedger): void;
}

export class Limiter implements RequestLimiter {
  private readonly context: ShimContext;
  private readonly host: LimiterHost;
  private readonly bucket: RequestBucket;
  /** Queue pairs with requests that have no token yet, the next one first. */
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
    // Requests of a failed queue pair are flushed at once; new requests stay behind those that wait.
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

  /** Returns the tokens of requests that were not taken, and lets those without a token wait. */
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

  /** Gives the tokens that have come to the queue pairs that wait, one request each in rounds. */
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

  /** Whether it holds requests that may not be issued yet. It has none after a flush or a reset. */
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

/** Licenses one more request, and the free ones before and after it; returns the tokens that this costs. */
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
