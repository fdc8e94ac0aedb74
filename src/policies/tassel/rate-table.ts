/**
 * The rates of queue pairs, and of what they belong to: a tenant, an application, a group. Each of these is a limit with a
 * small number of its own. A queue pair is held to all of its limits, so the lowest one counts.
 */
import { fitColumn } from '../../shim/tables.ts';
import { NONE } from '../kit/run-queue.ts';

/** Limits of a queue pair besides its own rate, as a power of two; the last one is unused. */
export const LIMIT_BITS = 2;
/** Which limit is where. */
export const APPLICATION = 0;
export const GROUP = 1;
export const TENANT = 2;
export const LIMITS = 3;

/** Rates as times per byte on the wire, in ns; 0: no limit. */
export class RateTable {
  // By limit.
  private limitNs: Float64Array = new Float64Array(16);
  // By queue pair: its own rate, the lowest of all its rates, and its limits plus one.
  private ownNs: Float64Array = new Float64Array(64);
  private lowestNs: Float64Array = new Float64Array(64);
  private members: Int32Array = new Int32Array(64 << LIMIT_BITS);
  /** By queue pair: 1 if it has a limit with a rate. */
  private limited: Uint8Array = new Uint8Array(64);

  /** A queue pair was created. */
  add(qp: number): void {
    this.ownNs = fitColumn(this.ownNs, qp);
    this.lowestNs = fitColumn(this.lowestNs, qp);
    this.members = fitColumn(this.members, (qp + 1) << LIMIT_BITS);
    this.limited = fitColumn(this.limited, qp);
    this.limited[qp] = 0;
    this.ownNs[qp] = 0;
    this.lowestNs[qp] = 0;
    this.members.fill(0, qp << LIMIT_BITS, (qp + 1) << LIMIT_BITS);
  }

  /** The queue pair now belongs to this limit (APPLICATION, GROUP, TENANT); NONE: to none. `fit` must follow. */
  assign(qp: number, which: number, limit: number): void {
    this.members[(qp << LIMIT_BITS) + which] = limit + 1;
  }

  /** The limit of a queue pair; NONE: it has none there, or one without a rate. */
  limitOf(qp: number, which: number): number {
    const limit = this.members[(qp << LIMIT_BITS) + which] - 1;
    return limit === NONE || this.limitNs[limit] === 0 ? NONE : limit;
  }

  /** Time per byte of a limit, in ns; 0: no limit. */
  nsOf(limit: number): number {
    return this.limitNs[limit];
  }

  /** `fit` must follow for each queue pair of the limit. @param nsPerByte 0: no limit */
  setLimit(limit: number, nsPerByte: number): void {
    this.limitNs = fitColumn(this.limitNs, limit);
    this.limitNs[limit] = nsPerByte;
  }

  /** Time per byte of a queue pair's own rate, in ns; 0: none. */
  ownNsOf(qp: number): number {
    return this.ownNs[qp];
  }

  /** `fit` must follow. @param nsPerByte 0: no rate of its own */
  setOwn(qp: number, nsPerByte: number): void {
    this.ownNs[qp] = nsPerByte;
  }

  /** Time per byte of the lowest rate of a queue pair, in ns; 0: it has none at all. */
  lowestNsOf(qp: number): number {
    return this.lowestNs[qp];
  }

  /** Whether one of the limits of a queue pair has a rate. */
  isLimited(qp: number): boolean {
    return this.limited[qp] === 1;
  }

  /** Whether a queue pair has a rate. */
  isRated(qp: number): boolean {
    return this.lowestNs[qp] > 0;
  }

  /** Some rate of a queue pair has changed. */
  fit(qp: number): void {
    let ns = this.ownNs[qp];
    this.limited[qp] = 0;
    for (let which = 0; which < LIMITS; which++) {
      const limit = this.limitOf(qp, which);
      if (limit === NONE) continue;
      ns = Math.max(ns, this.limitNs[limit]);
      this.limited[qp] = 1;
    }
    this.lowestNs[qp] = ns;
  }
}
