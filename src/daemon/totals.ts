/**
 * What tenants have sent, in all: contexts come and go, and what one sent stays its tenant's. Whoever adds this up
 * over time sees it grow only. Tenants that left long ago are forgotten.
 */
import * as M from '../coordinator/member-table.ts';

export interface Total {
  readonly device: string;
  readonly tenant: string;
  sentRequests: number;
  sentBytes: number;
  /** When it left; Infinity: it is here. */
  leftNs: number;
}

/** How far the counters of a member are counted already. */
export interface Counted {
  requests: number;
  bytes: number;
}

/** A tenant that left is remembered for so long; of more than so many, those that left last. */
export const REMEMBERED_NS = 3600e9;
export const MOST_REMEMBERED = 1000;
/** More than any page may truthfully say: sums stay whole numbers, and one page cannot fill them. */
const MOST_AT_ONCE = 2 ** 48;

export class Totals {
  private readonly here = new Map<string, Total>();
  /** In the order in which they left. */
  private readonly gone = new Map<string, Total>();

  /** Of a tenant at a device, which is here. */
  of(device: string, tenant: string): Total {
    const key = keyOf(device, tenant);
    const known = this.here.get(key);
    if (known !== undefined) return known;
    const total = this.gone.get(key) ?? { device, tenant, sentRequests: 0, sentBytes: 0, leftNs: 0 };
    total.leftNs = Number.POSITIVE_INFINITY;
    this.gone.delete(key);
    this.here.set(key, total);
    return total;
  }

  /** Those that left no longer than an hour ago, too. */
  all(nowNs: number): Total[] {
    this.forget(nowNs);
    return [...this.here.values(), ...this.gone.values()];
  }

  /** The last context of a tenant at a device has gone. */
  left(total: Total, nowNs: number): void {
    const key = keyOf(total.device, total.tenant);
    total.leftNs = nowNs;
    this.here.delete(key);
    this.gone.set(key, total);
    this.forget(nowNs);
  }

  private forget(nowNs: number): void {
    for (const [key, { leftNs }] of this.gone) {
      if (this.gone.size <= MOST_REMEMBERED && nowNs - leftNs <= REMEMBERED_NS) return;
      this.gone.delete(key);
    }
  }
}

const keyOf = (device: string, tenant: string) => `${device}\0${tenant}`;

/** Adds what a member has sent since it was counted last. One that counts backwards has sent nothing. */
export function add(total: Total, counted: Counted, counters: Float64Array): void {
  total.sentRequests += grown(counted.requests, counters[M.SENT_REQUESTS]);
  total.sentBytes += grown(counted.bytes, counters[M.SENT_BYTES]);
  counted.requests = counters[M.SENT_REQUESTS];
  counted.bytes = counters[M.SENT_BYTES];
}

function grown(from: number, to: number): number {
  const by = to - (from >= 0 ? from : 0);
  return by > 0 && by <= MOST_AT_ONCE ? by : 0;
}
