/** Limits of a tenant (PeRF, section 3.4): requests per second, and queue pairs. Its contexts share them. */
import type { Actions, ContextView, QpView } from '../../shim/policy.ts';

export interface LimitOptions {
  /** 0: no limit. */
  readonly maxRequestsPerS: number;
  /** Requests that may be posted at once after a pause. */
  readonly burstRequests: number;
  /** 0: no limit. */
  readonly maxQps: number;
}

interface Tenant {
  qps: number;
  /** Requests that may be posted, as of a time. */
  readonly budget: Float64Array;
}
const REQUESTS = 0;
const AT_NS = 1;

export class Limits {
  private readonly o: LimitOptions;
  private readonly tenants = new Map<string, Tenant>();
  /** By context. */
  private readonly byContext: Tenant[] = [];
  /** By queue pair. */
  private readonly byQp: Tenant[] = [];

  constructor(options: LimitOptions) {
    this.o = options;
  }

  open({ index, device, tenant }: ContextView): void {
    const key = tenant === '' ? null : `${device} ${tenant}`;
    let found = key === null ? undefined : this.tenants.get(key);
    found ??= { qps: 0, budget: new Float64Array([this.o.burstRequests, Number.NEGATIVE_INFINITY]) };
    if (key !== null) this.tenants.set(key, found);
    this.byContext[index] = found;
  }

  add({ index, context }: QpView): void {
    this.byQp[index] = this.byContext[context.index];
    this.byQp[index].qps++;
  }

  remove({ index }: QpView): void {
    this.byQp[index].qps--;
  }

  /** Whether a context may have one more queue pair. */
  mayAdd({ index }: ContextView): boolean {
    return this.o.maxQps === 0 || this.byContext[index].qps < this.o.maxQps;
  }

  /** How many of `count` requests may be posted now. */
  take(qp: QpView, count: number, out: Actions): number {
    const { maxRequestsPerS, burstRequests } = this.o;
    const { budget } = this.byQp[qp.index];
    const nowNs = out.nowNs(qp.context);
    const earned = Math.max(0, nowNs - budget[AT_NS]) * maxRequestsPerS * 1e-9;
    budget[REQUESTS] = Math.min(burstRequests, budget[REQUESTS] + earned);
    budget[AT_NS] = nowNs;
    const n = Math.min(count, Math.floor(budget[REQUESTS]));
    budget[REQUESTS] -= n;
    return n;
  }
}
