/** The contexts of a policy that limits tenants: reports their queue pairs to a ruler of shares, and reads what it grants. */
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { Ruler } from '../../coordinator/ruler.ts';
import type { Actions, ContextView, QpView } from '../../shim/policy.ts';
import {
  grantedGbps,
  type Member,
  RATED_QPS,
  type ShareRules,
  TENANT_GBPS,
  UNLIMITED_GBPS,
} from './shares.ts';
import { TenantMembers } from './tenant-members.ts';

/** After another holder of the coordinator's lock kept a policy from deciding. */
const RETRY_NS = 2000;

/** The rates of tenants, as a ruler with the columns of `shares` grants them. Tenants are entities of the policy. */
export class TenantRates<Options extends object> {
  private readonly registry: CoordinatorRegistry;
  private readonly ruler: Ruler<ShareRules>;
  private readonly rulesOf: (options: Options) => ShareRules;
  private readonly retryToken: number;
  private readonly members: TenantMembers;

  /** @param retryToken the first of as many tokens as there are contexts: a timer of the policy's (`onTimer`) */
  constructor(
    registry: CoordinatorRegistry,
    ruler: Ruler<ShareRules>,
    rulesOf: (options: Options) => ShareRules,
    retryToken: number,
  ) {
    this.registry = registry;
    this.members = new TenantMembers(registry, ruler);
    this.ruler = ruler;
    this.rulesOf = rulesOf;
    this.retryToken = retryToken;
  }

  /** A context was opened. @throws ConfigError if the device has other rules */
  open(context: ContextView, options: Options): void {
    this.registry.govern(context, this.ruler, options, this.rulesOf);
    this.members.open(context).columns.reports[RATED_QPS] = 0;
  }

  /** The contexts that are open. */
  get openMembers(): Member[] {
    return this.members.allOpen;
  }

  /** The options of the policy have changed, and with them the rules of a context's device. */
  changeRules(context: ContextView, options: Options): void {
    this.registry.changeRules(context, this.ruler, options, this.rulesOf);
  }

  /** The key of a queue pair's tenant, which stays while the context has queue pairs. */
  keyOf(qp: { readonly context: ContextView }): string {
    return this.members.keyOf(qp);
  }

  /** The same of a context that has queue pairs; '' before its first one. */
  keyAt(context: ContextView): string {
    return this.members.at(context.index)?.key ?? '';
  }

  /** Whether the context with this index is open. */
  isOpen(index: number): boolean {
    return this.members.isOpen(index);
  }

  /** A queue pair of a tenant was created. */
  join(qp: QpView, tenant: number, out: Actions): void {
    const { columns, qps } = this.members.join(qp, tenant);
    columns.reports[RATED_QPS] = qps;
    if (qps === 1) this.share(qp.context, out);
  }

  /** A queue pair of a tenant was destroyed. */
  leave(qp: { readonly index: number }, tenant: number, out: Actions): void {
    const member = this.members.leave(qp, tenant);
    if (!this.registry.has(member.context)) return;
    member.columns.reports[RATED_QPS] = member.qps;
    if (member.qps === 0) this.share(member.context, out);
  }

  /** Recomputes the rates of all tenants after a context got its first queue pair or lost its last, or rules changed. */
  share(context: ContextView, out: Actions): void {
    const nowNs = out.nowNs(context);
    const isDone = this.registry.decide(context, this.ruler, nowNs);
    this.registry.announce(context.device);
    if (!isDone) out.timer(context, nowNs + RETRY_NS, this.retryToken + context.index);
  }

  /** A timer has expired. Returns whether it was one of this object. */
  onTimer(token: number, out: Actions): boolean {
    if (token < this.retryToken) return false;
    const member = this.members.at(token - this.retryToken);
    if (member !== undefined && this.registry.has(member.context)) this.share(member.context, out);
    return true;
  }

  /** The context as a member of its device. */
  memberAt(context: ContextView): Member | undefined {
    return this.members.at(context.index);
  }

  /** The contexts of a tenant that have queue pairs. */
  sharersOf(tenant: number): readonly Member[] {
    return this.members.sharersOf(tenant);
  }

  /** Whether no rate is in force for a tenant with queue pairs, of whose members others may be elsewhere. */
  isUnlimited(tenant: number): boolean {
    return this.sharersOf(tenant).some(({ columns }) => columns.grants[TENANT_GBPS] >= UNLIMITED_GBPS);
  }

  /** The number of tenants that have ever been here. */
  get limit(): number {
    return this.members.limit;
  }

  /** The rate of a tenant with queue pairs, in Gbit/s. @param paidBytes what it has sent on the wire since the last call */
  gbpsOf(tenant: number, paidBytes: number): number {
    return grantedGbps(this.sharersOf(tenant), paidBytes);
  }
}
