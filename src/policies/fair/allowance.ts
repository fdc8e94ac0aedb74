/**
 * What tenants may send beyond their shares: some tiny messages, whose headers outweigh their data. Next to hundreds of
 * others, a tenant's share is too small for even a few of them, although they take next to nothing from the others.
 * There is no clock: a tenant is granted a part of what all of them use.
 */
import { fitColumn } from '../../shim/tables.ts';

/** The part of the dominant resource that a tenant may use for tiny messages in any case, and the part of all tenants. */
const TENANT_PART = 1 / 8;
const TOTAL_PART = 1 / 2;
/** All tenants together may save up this many times what one of them may. */
const TOTAL_BURSTS = 4;

/** Words of a tenant: what it may still use, in ns of its dominant resource, and what all had used when this was computed. */
const BITS = 1;
const LEFT = 0;
const SEEN = 1;
/** Words of all tenants together: the same, and what all have used. */
const USED = 2;

/** The allowances of tenants. */
export class Allowance {
  private burstNs: number;
  private tenants: Float64Array = new Float64Array(16 << BITS);
  private readonly all = new Float64Array(3);

  /** @param burstNs what a tenant may save up */
  constructor(burstNs: number) {
    this.burstNs = burstNs;
  }

  configure(burstNs: number): void {
    this.burstNs = burstNs;
  }

  /** A tenant begins. */
  begin(tenant: number): void {
    const at = tenant << BITS;
    this.tenants = fitColumn(this.tenants, at + SEEN);
    this.tenants[at + LEFT] = this.burstNs;
    this.tenants[at + SEEN] = this.all[USED];
  }

  /** Any tenant has used this much of its dominant resource. */
  used(ns: number): void {
    this.all[USED] += ns;
  }

  /** What the tenant may use now. */
  leftNs(tenant: number): number {
    const { tenants, all, burstNs } = this;
    const at = tenant << BITS;
    const mostNs = TOTAL_BURSTS * burstNs;
    all[LEFT] = Math.min(mostNs, all[LEFT] + TOTAL_PART * (all[USED] - all[SEEN]));
    all[SEEN] = all[USED];
    tenants[at + LEFT] = Math.min(
      burstNs,
      tenants[at + LEFT] + TENANT_PART * (all[USED] - tenants[at + SEEN]),
    );
    tenants[at + SEEN] = all[USED];
    return Math.min(tenants[at + LEFT], all[LEFT]);
  }

  /** The tenant has used this much for tiny messages, whether as its share or beyond it. */
  take(tenant: number, ns: number): void {
    const at = (tenant << BITS) + LEFT;
    this.tenants[at] = Math.max(this.tenants[at] - ns, -this.burstNs);
    this.all[LEFT] = Math.max(this.all[LEFT] - ns, -TOTAL_BURSTS * this.burstNs);
  }
}
