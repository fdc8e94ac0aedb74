/**
 * Keeps the contexts of a tenant at a device below a number of requests per second, under any policy. They share a bucket,
 * which stays when they close. Each queue pair has a license: the requests
 * that may be issued, as with a managed queue pair. Requests beyond it are held in order, and the waiting queue pairs
 * are licensed in rounds, one request each. WAITs and ENABLEs are free.
 */
import { ISO_WR_ENABLE, ISO_WR_WAIT } from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import type { RequestLimiter, ShimContext } from '../context.ts';
import { LIMITED } from '../counters.ts';
import type { QpLedger } from '../qp-ledger.ts';
import { Bucket } from './bucket.ts';

/** The sum of the contexts' limits is read again after this time, or when one has changed. */
const READ_NS = 1e5;
/** The most unused tokens: this fraction of a second's worth, but at least a few. */
const BURST_S = 0.01;
const LEAST_BURST = 4;
const NS_PER_S = 1e9;

/** A token for each request. */
export class RequestBucket {
  private readonly bucket: Bucket;

  constructor(requestsPerS: number, nowNs: number) {
    // Otherwise, a program could get a burst for each context that it opens.
    this.bucket = new Bucket({ burst: LEAST_BURST, tokens: 0, nowNs });
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
  /** The limit of the context's tenant, of which `requestsPerS` is a part; Infinity if there is none. */
  tenantRequestsPerS(context: ShimContext): number;
  /** Requests have taken tokens; a negative number returns them. */
  pay(context: ShimContext, requests: number): void;
  /** `serve` must be called at this time. */
  setTimer(context: ShimContext, atNs: number): void;
  /** Some held requests of the queue pair may be issued. */
  feed(qp: QpLedger): void;
}

export class Limiter implements RequestLimiter {
  private readonly host: LimiterHost;
  private readonly bucket: RequestBucket;
  private readonly contexts: ShimContext[] = [];
  /** The sum of the limits of the contexts, at most that of their tenant, and when it was read. */
  private perS = 0;
  private readNs = Number.NEGATIVE_INFINITY;
  /** Queue pairs with requests that have no token yet, the next one to serve first. */
  private waiting: QpLedger[] = [];
  /** The context with a timer for the next token. */
  private armed: ShimContext | null = null;

  constructor(nowNs: number, host: LimiterHost) {
    this.host = host;
    this.bucket = new RequestBucket(0, nowNs);
  }

  /** Limits this context, too. */
  join(context: ShimContext): void {
    this.contexts.push(context);
    this.readNs = Number.NEGATIVE_INFINITY;
    this.fill(context);
  }

  /** Whether it limits no context at present. */
  get isUnused(): boolean {
    return this.contexts.length === 0;
  }

  private fill(context: ShimContext): void {
    const nowNs = this.host.nowNs(context);
    if (nowNs - this.readNs >= READ_NS) this.readLimits(nowNs);
    this.bucket.fill(nowNs, this.perS);
  }

  /**
   * Before a context is granted its part, nothing is known beyond what the tenant was granted last. Contexts that do not
   * send yet have parts beyond the limit of the tenant, and parts that are not granted anew do not shrink.
   */
  private readLimits(nowNs: number): void {
    this.readNs = nowNs;
    let [perS, mostPerS] = [0, Number.POSITIVE_INFINITY];
    for (const context of this.contexts) {
      const partPerS = this.host.requestsPerS(context);
      if (partPerS === 0) continue;
      perS += partPerS;
      mostPerS = Math.min(mostPerS, this.host.tenantRequestsPerS(context));
    }
    if (perS > 0) this.perS = Math.min(perS, mostPerS);
  }

  private take(requests: number, context: ShimContext): void {
    if (requests === 0) return;
    this.bucket.take(requests);
    this.host.pay(context, requests);
  }

  /** Takes a token for each request that it admits. */
  admit(qp: QpLedger, words: Uint32Array, start: number, count: number): number {
    // Requests of a failed queue pair are flushed at once; new requests stay behind waiting ones.
    if (this.hasUnlicensed(qp)) return 0;
    const n = qp.broken ? count : this.affordable(qp.context, words, start, count);
    qp.licensed = (qp.appPosted + n) | 0;
    return n;
  }

  private affordable(context: ShimContext, words: Uint32Array, start: number, count: number): number {
    this.fill(context);
    const most = this.waiting.length > 0 ? 0 : this.bucket.available;
    let paid = 0;
    let n = 0;
    for (; n < count; n++) {
      if (isFree(words[L.slotAt(start + n) + L.WR_OP])) continue;
      if (paid >= most) break;
      paid++;
    }
    this.take(paid, context);
    return n;
  }

  /** Returns the tokens of requests that the device did not accept, and lets requests without a token wait. */
  posted(qp: QpLedger): void {
    const over = (qp.licensed - qp.appPosted) | 0;
    if (over > 0) {
      this.take(-over, qp.context);
      qp.licensed = qp.appPosted;
    }
    if (this.hasUnlicensed(qp) && !qp.isLimited) {
      qp.isLimited = true;
      qp.counts[LIMITED]++;
      this.waiting.push(qp);
    }
    this.arm();
  }

  /** Gives the tokens that have arrived to the waiting queue pairs, one request each in rounds. */
  serve(context: ShimContext): void {
    const { bucket } = this;
    this.fill(context);
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
      const paid = license(qp);
      left -= paid;
      this.take(paid, qp.context);
      served.add(qp);
      if (this.hasUnlicensed(qp)) queue.push(qp);
      else qp.isLimited = false;
    }
    this.waiting = queue.slice(n);
    for (const qp of served) this.host.feed(qp);
    this.arm();
  }

  limitChanged(context: ShimContext): void {
    this.readNs = Number.NEGATIVE_INFINITY;
    this.serve(context);
  }

  end(context: ShimContext): void {
    const released = this.waiting.filter((qp) => qp.context === context);
    this.leave(context);
    for (const qp of released) {
      qp.isLimited = false;
      this.host.feed(qp);
    }
  }

  leave(context: ShimContext): void {
    this.contexts.splice(this.contexts.indexOf(context), 1);
    this.readNs = Number.NEGATIVE_INFINITY;
    this.waiting = this.waiting.filter((qp) => qp.context !== context);
    this.arm();
  }

  /** Whether the queue pair holds requests that may not be issued yet. After a flush or a reset it holds none. */
  private hasUnlicensed(qp: QpLedger): boolean {
    if (qp.broken || qp.backlog === 0) return false;
    if (((qp.issued - qp.licensed) | 0) > 0) qp.licensed = qp.issued;
    return ((qp.appPosted - qp.licensed) | 0) > 0;
  }

  private arm(): void {
    const { armed, waiting, host } = this;
    const next = waiting.length === 0 ? null : waiting[0].context;
    if (armed !== null && armed !== next) host.setTimer(armed, Number.POSITIVE_INFINITY);
    this.armed = next;
    if (next !== null) host.setTimer(next, this.bucket.readyNs);
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
