/**
 * Keeps tenants to the rates that a daemon gives them (rate-parts.ts): a token bucket for each tenant, from which all
 * its requests in this process take their bytes on the wire. Queue pairs of a tenant without tokens wait here.
 */
import { PAID_BYTES } from '../../coordinator/member-table.ts';
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { Ruler } from '../../coordinator/ruler.ts';
import { Bucket } from '../../shim/limits/bucket.ts';
import type { Actions, ContextView, QpView } from '../../shim/policy.ts';
import { Entities } from '../kit/entities.ts';
import { NONE, RunQueue } from '../kit/run-queue.ts';
import type { Member } from '../token-bucket/shares.ts';
import { TenantMembers } from '../token-bucket/tenant-members.ts';
import { PART_GBPS, TENANT_GBPS } from './rate-parts.ts';

/** Bytes on the wire that an idle tenant can save, and the longest pieces of a tenant with a rate. */
export const BURST_BYTES = 262_144;

/** The rate of a tenant. */
interface Rate {
  readonly entity: number;
  readonly bucket: Bucket;
  /** [0]: bytes on the wire that have not been reported as paid yet. */
  readonly unpaid: Float64Array;
  isLimited: boolean;
}

/** The rates of the tenants of one device in this process. */
export class DaemonRates {
  /** Whether any tenant has a rate. */
  isLimiting = false;
  /** Tenants as the daemon names them. Debt outlives the queue pairs. */
  private readonly entities: Entities;
  private readonly members: TenantMembers;
  private readonly isOn: boolean;
  // By queue pair.
  private readonly qps: QpView[] = [];
  private readonly rateOf: Rate[] = [];
  /** By entity. */
  private readonly rates: Rate[] = [];
  /** Queue pairs that wait for tokens, a queue for each entity. */
  private readonly waiting = new RunQueue();

  /** @param isOn whether rates are enforced */
  constructor(registry: CoordinatorRegistry, ruler: Ruler, isOn: boolean) {
    this.isOn = isOn;
    this.members = new TenantMembers(registry, ruler);
    this.entities = new Entities({
      keyOf: (qp) => this.members.keyOf(qp),
      onNew: (entity) => {
        // The daemon knows what the tenant sends in other processes: otherwise, each new one would have a burst.
        const bucket = new Bucket({ burst: BURST_BYTES, tokens: 0 });
        this.rates[entity] = { entity, bucket, unpaid: new Float64Array(1), isLimited: false };
      },
      mayForget: (entity, nowNs) => !this.rates[entity].isLimited || this.rates[entity].bucket.isFull(nowNs),
    });
  }

  /** A context was opened. */
  open(context: ContextView): void {
    this.members.open(context);
  }

  /** A queue pair was created. Returns what `update` does. */
  join(qp: QpView, nowNs: number): boolean {
    const entity = this.entities.join(qp, nowNs);
    this.qps[qp.index] = qp;
    this.rateOf[qp.index] = this.rates[entity];
    return this.members.join(qp, entity).qps === 1 && this.update(nowNs);
  }

  /** A queue pair was destroyed. */
  leave({ index }: { readonly index: number }, out: Actions): void {
    const rate = this.rateOf[index];
    this.waiting.remove(index);
    this.pay(rate);
    const { context } = this.members.leave({ index }, rate.entity);
    this.entities.leave({ index }, out.nowNs(context));
  }

  /** Reads what the daemon has granted. Returns whether a tenant has got a rate, or lost it. */
  update(nowNs: number): boolean {
    let hasChanged = false;
    this.isLimiting = false;
    for (let entity = 0; entity < this.entities.limit; entity++) {
      const rate = this.rates[entity];
      if (this.members.sharersOf(entity).length > 0 && this.updateOne(rate, nowNs)) hasChanged = true;
      if (!rate.isLimited) continue;
      this.isLimiting = true;
      this.pay(rate);
    }
    return hasChanged;
  }

  private updateOne(rate: Rate, nowNs: number): boolean {
    const { bucket, isLimited: wasLimited } = rate;
    const gbps = this.isOn ? grantedGbps(this.members.sharersOf(rate.entity)) : null;
    rate.isLimited = gbps !== null;
    // What arrives until now does so at the previous rate.
    bucket.fill(nowNs);
    bucket.setRate(gbps === null ? 0 : gbps / 8);
    if (!wasLimited) bucket.take(Math.max(0, bucket.tokens));
    return wasLimited !== rate.isLimited;
  }

  /** Reports what a tenant has paid, unless another policy around this one does. */
  private pay({ entity, unpaid }: Rate): void {
    const [sharer] = this.members.sharersOf(entity);
    if (sharer === undefined) return;
    if (sharer.context.isInner !== true) sharer.page.counters[PAID_BYTES] += unpaid[0];
    unpaid[0] = 0;
  }

  /** Whether the tenant of a queue pair has a rate. */
  limits(qp: number): boolean {
    return this.isLimiting && this.rateOf[qp].isLimited;
  }

  /** Whether the tenant of a queue pair had tokens when its bucket was last filled. */
  hasTokens(qp: number): boolean {
    return this.rateOf[qp].bucket.tokens > 0;
  }

  /** Adds the tokens that the tenant of a queue pair has earned. */
  fill(qp: number, nowNs: number): void {
    this.rateOf[qp].bucket.fill(nowNs);
  }

  /** The queue pair sends this many bytes on the wire. */
  take(qp: number, wireBytes: number): void {
    const { isLimited, bucket, unpaid } = this.rateOf[qp];
    if (!isLimited) return;
    bucket.take(wireBytes);
    unpaid[0] += wireBytes;
  }

  /** Whether queue pairs of the same tenant wait for tokens. */
  isAwaited(qp: number): boolean {
    return this.waiting.first(this.rateOf[qp].entity) !== NONE;
  }

  /** A queue pair waits for tokens. Returns when its tenant has some. */
  park({ index }: QpView): number {
    const { entity, bucket } = this.rateOf[index];
    this.waiting.push(index, entity);
    return bucket.readyNs(1);
  }

  /** A queue pair that need not wait any longer, which is the one that has waited longest; null: there is none. */
  release(nowNs: number): QpView | null {
    for (let entity = 0; entity < this.entities.limit; entity++) {
      const first = this.waiting.first(entity);
      if (first === NONE) continue;
      const { bucket, isLimited } = this.rates[entity];
      bucket.fill(nowNs);
      if (isLimited && bucket.tokens <= 0) continue;
      this.waiting.remove(first);
      return this.qps[first];
    }
    return null;
  }

  /** Whether any queue pair waits for tokens. */
  get isHolding(): boolean {
    for (let entity = 0; entity < this.entities.limit; entity++)
      if (this.waiting.first(entity) !== NONE) return true;
    return false;
  }

  /** When the first tenant whose queue pairs wait has tokens; Infinity: never, or none waits. */
  get readyNs(): number {
    let readyNs = Number.POSITIVE_INFINITY;
    for (let entity = 0; entity < this.entities.limit; entity++)
      if (this.waiting.first(entity) !== NONE)
        readyNs = Math.min(readyNs, this.rates[entity].bucket.readyNs(1));
    return readyNs;
  }
}

/** The rate that contexts of one tenant are granted together; null: no limit. */
function grantedGbps(sharers: readonly Member[]): number | null {
  let gbps = 0;
  let mostGbps = Number.POSITIVE_INFINITY;
  for (const { columns } of sharers) {
    const part = columns.grants[PART_GBPS];
    if (part === 0) return null;
    gbps += Math.max(0, part);
    if (columns.grants[TENANT_GBPS] > 0) mostGbps = Math.min(mostGbps, columns.grants[TENANT_GBPS]);
  }
  return Math.min(gbps, mostGbps);
}
