/** The contexts of a policy that limits tenants, as members of their devices, and those of each tenant that have queue pairs. */
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import type { Ruler } from '../../coordinator/ruler.ts';
import type { ContextView, QpView } from '../../shim/policy.ts';
import { entityOfTenant } from '../kit/entities.ts';
import type { Member } from './shares.ts';

const NO_MEMBERS: readonly Member[] = [];

/** Members by context, by queue pair and by tenant. Tenants are entities of the policy. */
export class TenantMembers {
  private readonly registry: CoordinatorRegistry;
  private readonly ruler: Ruler;
  // By context, and by queue pair.
  private readonly members: Member[] = [];
  private readonly memberOf: Member[] = [];
  /** By tenant: its contexts with queue pairs. */
  private readonly sharers: (readonly Member[])[] = [];

  /** @param ruler whose columns members have */
  constructor(registry: CoordinatorRegistry, ruler: Ruler) {
    this.registry = registry;
    this.ruler = ruler;
  }

  /** A context was opened. Returns it as a member of its device. */
  open(context: ContextView): Member {
    const page = this.registry.page(context);
    const member = { context, page, columns: page.columns(this.ruler), qps: 0, key: '' };
    this.members[context.index] = member;
    return member;
  }

  /** The contexts that are open. */
  get allOpen(): Member[] {
    return this.members.filter(({ context }) => this.registry.has(context));
  }

  /** Whether the context with this index is open. */
  isOpen(index: number): boolean {
    const member = this.members[index];
    return member !== undefined && this.registry.has(member.context);
  }

  /** The context with this index, which may be closed; undefined if there never was one. */
  at(index: number): Member | undefined {
    return this.members[index];
  }

  /** The key of a queue pair's tenant, which stays while the context has queue pairs. */
  keyOf({ context }: { readonly context: ContextView }): string {
    const member = this.members[context.index];
    if (member.qps === 0) member.key = entityOfTenant(context, this.registry.tenantOf(context));
    return member.key;
  }

  /** A queue pair of a tenant was created. Returns its context, one of whose queue pairs it is (`qps`). */
  join(qp: QpView, tenant: number): Member {
    const member = this.members[qp.context.index];
    this.memberOf[qp.index] = member;
    if (++member.qps === 1) this.sharers[tenant] = [...this.sharersOf(tenant), member];
    return member;
  }

  /** A queue pair of a tenant was destroyed. Returns its context. */
  leave({ index }: { readonly index: number }, tenant: number): Member {
    const member = this.memberOf[index];
    if (--member.qps === 0) this.sharers[tenant] = this.sharersOf(tenant).filter((one) => one !== member);
    return member;
  }

  /** The contexts of a tenant that have queue pairs. */
  sharersOf(tenant: number): readonly Member[] {
    return this.sharers[tenant] ?? NO_MEMBERS;
  }

  /** The number of tenants that have ever been here. */
  get limit(): number {
    return this.sharers.length;
  }
}
