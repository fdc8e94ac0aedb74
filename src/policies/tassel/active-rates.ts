/**
 * The sum of the rates of the queue pairs that have something to send (Phi, section 3.1 of the paper). Queue pairs of one
 * limit count at most its rate together. A queue pair with limits for its application and for its group counts by the
 * former.
 */
import { fitColumn } from '../../shim/tables.ts';
import { NONE } from '../kit/run-queue.ts';
import { APPLICATION, GROUP, LIMITS, type RateTable, TENANT } from './rate-table.ts';

/** The rates of active queue pairs, in bytes on the wire per nanosecond. */
export class ActiveRates {
  private readonly rates: RateTable;
  /** [0] the sum, [1] what `flow` adds at present. Arrays, because V8 allocates doubles that are passed to functions. */
  private readonly words = new Float64Array(2);
  private count = 0;
  /** By limit: the rates of what belongs to it, which may exceed its own; and the number of active queue pairs. */
  private sums: Float64Array = new Float64Array(16);
  private counts: Int32Array = new Int32Array(16);

  constructor(rates: RateTable) {
    this.rates = rates;
  }

  /** The sum of all rates, each as far as its limits allow. */
  get perNs(): number {
    return this.words[0];
  }

  /** A limit begins without queue pairs. */
  begin(limit: number): void {
    this.sums = fitColumn(this.sums, limit);
    this.counts = fitColumn(this.counts, limit);
    this.sums[limit] = 0;
    this.counts[limit] = 0;
  }

  /** Whether a queue pair of the limit is active. */
  isUsed(limit: number): boolean {
    return this.counts[limit] > 0;
  }

  /** A queue pair with a rate becomes active. */
  add(qp: number): void {
    this.count++;
    this.tally(qp, 1);
    this.flow(qp, 1);
  }

  /** An active queue pair becomes inactive, or is about to get another rate. */
  remove(qp: number): void {
    this.flow(qp, -1);
    this.tally(qp, -1);
    // Sums of doubles drift.
    if (--this.count === 0) this.words[0] = 0;
  }

  private tally(qp: number, change: number): void {
    for (let which = 0; which < LIMITS; which++) {
      const limit = this.rates.limitOf(qp, which);
      if (limit === NONE) continue;
      this.counts[limit] += change;
      if (this.counts[limit] === 0) this.sums[limit] = 0;
    }
  }

  /** Adds a rate to the sums on its way up, each time as far as the limit allows. */
  private flow(qp: number, sign: number): void {
    const { rates, words } = this;
    words[1] = sign / rates.lowestNsOf(qp);
    const inner = rates.limitOf(qp, APPLICATION);
    this.pass(inner === NONE ? rates.limitOf(qp, GROUP) : inner);
    this.pass(rates.limitOf(qp, TENANT));
    words[0] += words[1];
  }

  private pass(limit: number): void {
    if (limit === NONE) return;
    const { sums, words } = this;
    const most = 1 / this.rates.nsOf(limit);
    const before = Math.min(sums[limit], most);
    sums[limit] += words[1];
    words[1] = Math.min(sums[limit], most) - before;
  }
}
