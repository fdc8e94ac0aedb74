/**
 * Bounds on the rates of applications that are held back by hosts to which they send: a token bucket for each, from which
 * every request takes one token. Queue pairs of an application without tokens wait here.
 */
import { Bucket } from '../../shim/limits/bucket.ts';
import { fitColumn } from '../../shim/tables.ts';
import { NONE, RunQueue } from '../kit/run-queue.ts';

/** An application that is idle, or whose timer is late, may send at once what it could have sent in this time. */
const BURST_NS = 1e5;
/** Tokens are sums of many small parts. */
const ROUNDING = 1e-6;

/** The bounds of the applications of one device, by index of their entities. */
export class RequestBounds {
  /** By application; undefined: it has no bound. */
  private readonly buckets: (Bucket | undefined)[] = [];
  /** By queue pair: the held requests that have been issued and paid. */
  private paid: Float64Array = new Float64Array(16);
  private readonly waiting = new RunQueue();

  /** Sets the bound of an application in requests per second. Returns whether it had none before. */
  set(app: number, perS: number, nowNs: number): boolean {
    const known = this.buckets[app];
    const bucket = known ?? new Bucket({ burst: 1, tokens: 0, nowNs });
    this.buckets[app] = bucket;
    const perNs = perS / 1e9;
    bucket.fill(nowNs);
    bucket.setRate(perNs);
    bucket.setBurst(Math.max(1, perNs * BURST_NS));
    return known === undefined;
  }

  /** An application has no bound any more. */
  clear(app: number): void {
    this.buckets[app] = undefined;
  }

  /** Whether an application has a bound. */
  limits(app: number): boolean {
    return this.buckets[app] !== undefined;
  }

  /** The requests that an application may send now. Those that wait come first. */
  available(app: number, nowNs: number): number {
    if (this.waiting.first(app) !== NONE) return 0;
    return Math.max(0, Math.floor(this.buckets[app]!.fill(nowNs) + ROUNDING));
  }

  /** An application sends requests. */
  take(app: number, requests: number): void {
    this.buckets[app]?.take(requests);
  }

  /**
   * Whether a queue pair may issue a held request.
   * @param issued the held requests that it has issued so far
   */
  mayGo(app: number, qp: number, issued: number, nowNs: number): boolean {
    this.paid = fitColumn(this.paid, qp);
    const bucket = this.buckets[app];
    if (bucket !== undefined && issued > this.paid[qp]) bucket.take(issued - this.paid[qp]);
    if (issued > this.paid[qp]) this.paid[qp] = issued;
    return bucket === undefined || bucket.fill(nowNs) >= 1 - ROUNDING;
  }

  /** A queue pair begins, or has ended. */
  reset(qp: number): void {
    this.paid = fitColumn(this.paid, qp);
    this.paid[qp] = 0;
    this.waiting.remove(qp);
  }

  /** A queue pair waits for a token of its application. Returns when there is one. */
  park(app: number, qp: number): number {
    this.waiting.push(qp, app);
    return this.buckets[app]?.readyNs(1) ?? 0;
  }

  /** A queue pair that need not wait any longer, which is the one that has waited longest; NONE: there is none. */
  release(nowNs: number): number {
    for (let app = 0; app < this.buckets.length; app++) {
      if (this.waiting.first(app) === NONE) continue;
      const bucket = this.buckets[app];
      if (bucket === undefined || bucket.fill(nowNs) >= 1 - ROUNDING) return this.waiting.shift(app);
    }
    return NONE;
  }

  /** When the next queue pair may go; Infinity: none waits. */
  get readyNs(): number {
    let readyNs = Number.POSITIVE_INFINITY;
    for (let app = 0; app < this.buckets.length; app++)
      if (this.waiting.first(app) !== NONE) readyNs = Math.min(readyNs, this.buckets[app]?.readyNs(1) ?? 0);
    return readyNs;
  }
}
