/**
 * What tenants have sent in total. Contexts come and go, but the bytes that they sent stay with their tenant, so the
 * sums only grow. Tenants that left long ago are forgotten.
 */
import * as M from '../../coordinator/member-table.ts';
import { SUM_NAMES } from '../../shim/counters.ts';

export interface Total {
  readonly device: string;
  readonly tenant: string;
  sentRequests: number;
  sentBytes: number;
  /** In the order of SUM_NAMES. */
  readonly sums: Float64Array;
  /** The time at which the tenant left; Infinity while it is present. */
  leftNs: number;
}

/** The part of a member's counters that is already included in the total. */
export interface Counted {
  requests: number;
  bytes: number;
  readonly sums: Float64Array;
}

/** How long, and how many, departed tenants are remembered; beyond that number the most recent ones are kept. */
export const REMEMBERED_NS = 3600e9;
export const MAX_REMEMBERED = 1000;
/** A larger increase cannot be true. The bound keeps sums exact integers, and no single page can exhaust them. */
const MAX_INCREASE = 2 ** 48;

export class Totals {
  private readonly present = new Map<string, Total>();
  /** Departed tenants, in the order in which they left. */
  private readonly departed = new Map<string, Total>();

  /** The total of a tenant that is present at a device. */
  enter(device: string, tenant: string): Total {
    const key = keyOf(device, tenant);
    const known = this.present.get(key);
    if (known !== undefined) return known;
    const total = this.departed.get(key) ?? {
      ...{ device, tenant, sentRequests: 0, sentBytes: 0, leftNs: 0 },
      sums: new Float64Array(SUM_NAMES.length),
    };
    total.leftNs = Number.POSITIVE_INFINITY;
    this.departed.delete(key);
    this.present.set(key, total);
    return total;
  }

  /** Includes tenants that left within the last hour. */
  all(nowNs: number): Total[] {
    this.evict(nowNs);
    return [...this.present.values(), ...this.departed.values()];
  }

  /** The tenant's last context at the device has left. */
  leave(total: Total, nowNs: number): void {
    const key = keyOf(total.device, total.tenant);
    total.leftNs = nowNs;
    this.present.delete(key);
    this.departed.set(key, total);
    this.evict(nowNs);
  }

  private evict(nowNs: number): void {
    for (const [key, { leftNs }] of this.departed) {
      if (this.departed.size <= MAX_REMEMBERED && nowNs - leftNs <= REMEMBERED_NS) return;
      this.departed.delete(key);
    }
  }
}

/** The key of a tenant at a device. */
export const keyOf = (device: string, tenant: string) => `${device}\0${tenant}`;

/** Adds what a member has sent since it was last counted. Counters that run backwards add nothing. */
export function addSent(total: Total, counted: Counted, counters: Float64Array): void {
  total.sentRequests += increase(counted.requests, counters[M.SENT_REQUESTS]);
  total.sentBytes += increase(counted.bytes, counters[M.SENT_BYTES]);
  counted.requests = counters[M.SENT_REQUESTS];
  counted.bytes = counters[M.SENT_BYTES];
  for (let i = 0; i < counted.sums.length; i++) {
    const now = counters[M.SUMS + i];
    total.sums[i] += increase(counted.sums[i], now);
    counted.sums[i] = now;
  }
}

/** How much a counter has grown; 0 if that cannot be true. */
export function increase(from: number, to: number): number {
  const by = to - (from >= 0 ? from : 0);
  return by > 0 && by <= MAX_INCREASE ? by : 0;
}
