/** Finds out whether a tenant is alone at a device, in all directions of its link together. */
import { NONE } from '../kit/run-queue.ts';

/** A tenant is alone once no other one has sent or waited for this long. */
const SOLE_NS = 500e3;

/** Which tenants have sent or waited recently. */
export class Presence {
  /** The only tenant that has sent or waited recently. */
  private sole = NONE;
  /** [0] Since when it is known to be the only one. NaN: no time has been read since. */
  private readonly since = Float64Array.of(Number.NaN);

  /** A tenant sends, or begins to wait. */
  appear(tenant: number): void {
    if (tenant === this.sole) return;
    this.sole = tenant;
    this.since[0] = Number.NaN;
  }

  /** Whether no other tenant has sent anything, or begun to wait, for some time. */
  isSole(tenant: number, nowNs: number): boolean {
    if (tenant !== this.sole) return false;
    const { since } = this;
    if (Number.isNaN(since[0])) since[0] = nowNs;
    return nowNs - since[0] >= SOLE_NS;
  }
}
