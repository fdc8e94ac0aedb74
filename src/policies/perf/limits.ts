/** Limits of a tenant (PeRF, section 3.4): requests per second, and queue pairs. Its contexts share them. */
import { Bucket } from '../../shim/limits/bucket.ts';
import type { Actions, ContextView, QpView } from '../../shim/policy.ts';

/** Limits of one tenant. */
export interface LimitOptions {
  /** 0 means no limit. */
  readonly maxRequestsPerS: number;
  /** Requests that may be posted at once after an idle period. */
  readonly burstRequests: number;
  /** 0 means no limit. */
  readonly maxQps: number;
}

interface Tenant {
  readonly device: string;
  qps: number;
  /** Requests that may be posted. */
  readonly budget: Bucket;
}

/** The minimum number of contexts that triggers a sweep of closed ones. */
const MIN_SWEEP = 64;

/** Enforces the limits of the tenants of this process. */
export class Limits {
  private readonly options: LimitOptions;
  private readonly tenants = new Map<string, Tenant>();
  /** Tenants by context. */
  private readonly byContext: Tenant[] = [];
  /** By queue pair. */
  private readonly byQp: Tenant[] = [];
  /** Contexts, some of them possibly closed, and the number at which closed ones are swept. */
  private openedContexts: ContextView[] = [];
  private sweepAt = MIN_SWEEP;

  constructor(options: LimitOptions) {
    this.options = options;
  }

  /** Adds a context that was opened. @param isOpen whether an earlier context is still open */
  addContext(context: ContextView, nowNs: number, isOpen: (context: ContextView) => boolean): void {
    const { index, device, tenant } = context;
    const key = tenant === '' ? null : `${device} ${tenant}`;
    let found = key === null ? undefined : this.tenants.get(key);
    if (found === undefined) {
      found = { device, qps: 0, budget: new Bucket({ burst: this.options.burstRequests, nowNs }) };
    }
    if (key !== null) this.tenants.set(key, found);
    this.byContext[index] = found;
    this.openedContexts.push(context);
    if (this.openedContexts.length >= this.sweepAt) this.sweep(device, nowNs, isOpen);
  }

  /** Removes tenants without contexts, once their budget is full again. */
  private sweep(device: string, nowNs: number, isOpen: (context: ContextView) => boolean): void {
    this.openedContexts = this.openedContexts.filter(isOpen);
    this.sweepAt = Math.max(MIN_SWEEP, 2 * this.openedContexts.length);
    const live = new Set(this.openedContexts.map(({ index }) => this.byContext[index]));
    for (const [key, tenant] of this.tenants) {
      if (tenant.device !== device || tenant.qps > 0 || live.has(tenant)) continue;
      if (this.options.maxRequestsPerS === 0 || this.current(tenant.budget).isFull(nowNs))
        this.tenants.delete(key);
    }
  }

  /** The budget at the current rate. */
  private current(budget: Bucket): Bucket {
    const { maxRequestsPerS, burstRequests } = this.options;
    budget.setRate(maxRequestsPerS / 1e9);
    budget.setBurst(burstRequests);
    return budget;
  }

  addQp({ index, context }: QpView): void {
    this.byQp[index] = this.byContext[context.index];
    this.byQp[index].qps++;
  }

  removeQp({ index }: QpView): void {
    this.byQp[index].qps--;
  }

  /** Whether a context may have one more queue pair. */
  mayAddQp({ index }: ContextView): boolean {
    return this.options.maxQps === 0 || this.byContext[index].qps < this.options.maxQps;
  }

  /** How many of `count` requests may be posted now. */
  take(qp: QpView, count: number, out: Actions): number {
    const budget = this.current(this.byQp[qp.index].budget);
    const n = Math.min(count, Math.floor(budget.fill(out.nowNs(qp.context))));
    budget.take(n);
    return n;
  }
}
