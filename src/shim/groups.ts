/** The groups of the tenants whose contexts a shim knows. The policy hears of each weight that changes, once per tenant. */
import { DEFAULT_GROUP_WEIGHT, GroupTable, tenantKey } from '../verbs/groups.ts';
import type { Provider } from '../verbs/provider.ts';
import type { ShimContext } from './context.ts';
import type { CoordinatorPort } from './coordinator-port.ts';

interface Tenant {
  readonly key: string;
  readonly contexts: Set<ShimContext>;
  /** The weights that the policy knows, of groups whose weight is not the default. */
  readonly known: Map<string, number>;
}

export class ContextGroups {
  private readonly next: Provider;
  private readonly coordinator: CoordinatorPort | null;
  /** Reports to the policy that a group of the context's tenant has this weight now. */
  private readonly report: (context: ShimContext, name: string, weight: number) => void;
  /** What the contexts of this shim have created. */
  private readonly own = new GroupTable();
  private readonly tenants = new Map<string, Tenant>();
  private readonly byContext = new Map<ShimContext, Tenant>();

  constructor(next: Provider, coordinator: CoordinatorPort | null, report: ContextGroups['report']) {
    this.next = next;
    this.coordinator = coordinator;
    this.report = report;
  }

  /** A context was opened. @param groups those that its options create */
  open(context: ShimContext, groups: Readonly<Record<string, number>>): void {
    const { handle, device } = context;
    this.own.open(handle, device, context.tenant);
    const key = tenantKey(handle, device, context.tenant);
    const tenant = this.tenants.get(key) ?? { key, contexts: new Set(), known: new Map() };
    this.tenants.set(key, tenant);
    this.byContext.set(context, tenant);
    tenant.contexts.add(context);
    for (const [name, weight] of Object.entries(groups)) this.set(context, name, weight);
  }

  create(context: ShimContext | undefined, handle: number, name: string, weight: number): void {
    this.next.createGroup(handle, name, weight);
    if (context !== undefined) this.set(context, name, weight);
  }

  change(context: ShimContext | undefined, handle: number, name: string, weight: number): void {
    this.next.setGroup(handle, name, weight);
    if (context !== undefined) this.set(context, name, weight);
  }

  destroy(context: ShimContext | undefined, handle: number, name: string): void {
    this.next.destroyGroup(handle, name);
    if (context === undefined) return;
    this.own.remove(handle, name);
    this.coordinator?.setGroup?.(context, name, null);
    this.refresh(context, name);
  }

  private set(context: ShimContext, name: string, weight: number): void {
    this.own.set(context.handle, name, weight);
    this.coordinator?.setGroup?.(context, name, weight);
    this.refresh(context, name);
  }

  /** The coordinator may have given other weights. */
  granted(context: ShimContext): void {
    const given = this.coordinator?.groupsOf?.(context);
    if (given === undefined || given === context.givenGroups) return;
    const before = context.givenGroups;
    context.givenGroups = given;
    for (const name of new Set([...before.keys(), ...given.keys()])) this.refresh(context, name);
  }

  close(context: ShimContext): void {
    const tenant = this.byContext.get(context);
    if (tenant === undefined) return;
    const names = [...this.own.namesOf(context.handle)];
    this.own.close(context.handle);
    this.byContext.delete(context);
    tenant.contexts.delete(context);
    const [heir] = tenant.contexts;
    if (heir !== undefined) {
      for (const name of names) this.refresh(heir, name);
      return;
    }
    // Without contexts there is no tenant, and a policy may have kept its weights.
    this.tenants.delete(tenant.key);
    for (const name of tenant.known.keys()) this.report(context, name, DEFAULT_GROUP_WEIGHT);
  }

  /** Reports the weight of a group if it differs from what the policy knows. */
  private refresh(context: ShimContext, name: string): void {
    const known = this.byContext.get(context)?.known;
    if (known === undefined) return;
    const given = this.coordinator?.groupsOf?.(context)?.get(name);
    const weight = given ?? this.own.weightOf(context.handle, name);
    if (weight === (known.get(name) ?? DEFAULT_GROUP_WEIGHT)) return;
    if (weight === DEFAULT_GROUP_WEIGHT) known.delete(name);
    else known.set(name, weight);
    this.report(context, name, weight);
  }
}
