/**
 * Groups of queue pairs. The contexts of a tenant create them on a device, with weights among the tenant's groups. Like
 * labels, groups exist only at the seam. A queue pair belongs to the group that its label `group` names, whether
 * or not that group was created; one that was not has the weight 1.
 */
import { EBUSY, ENOMEM } from './constants.ts';
import { BusyError, InvalidArgumentError, NoResourcesError, shown } from './errors.ts';
import { isGroup, isWeight } from './labels.ts';

/** The weight of a group that no context has created. */
export const DEFAULT_GROUP_WEIGHT = 1;

/** The most groups that a context may have at a time. */
export const MAX_GROUPS = 1024;

/** Whether a value is a valid name for a group to create. */
export function isGroupName(value: unknown): value is string {
  return isGroup(value) && value !== '';
}

/** @throws InvalidArgumentError that says which names are valid */
export function requireGroupName(verb: string, name: unknown, where = 'name'): void {
  if (isGroupName(name)) return;
  throw new InvalidArgumentError(
    `${verb}: ${where} must be a name of 1 to 64 printable characters, got ${shown(name)}`,
    { verb },
  );
}

/** @throws InvalidArgumentError that says which weights are valid */
export function requireGroupWeight(verb: string, weight: unknown, where = 'weight'): void {
  if (isWeight(weight)) return;
  throw new InvalidArgumentError(
    `${verb}: ${where} must be a number from 0.000001 to 1000000, got ${shown(weight)}`,
    { verb },
  );
}

/**
 * The groups among the options of a context.
 * @throws InvalidArgumentError naming the group that is wrong, NoResourcesError for more than MAX_GROUPS
 */
export function requireGroups(verb: string, given: unknown): ReadonlyMap<string, number> {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new InvalidArgumentError(`${verb}: groups must be an object, got ${shown(given)}`, { verb });
  }
  const groups = new Map(Object.entries(given));
  requireGroupRoom(verb, groups.size);
  for (const [name, weight] of groups) {
    requireGroupName(verb, name, 'the name of a group');
    requireGroupWeight(verb, weight, `groups.${name}`);
  }
  return groups;
}

/** @param count groups that the context would have. @throws NoResourcesError for more than MAX_GROUPS */
export function requireGroupRoom(verb: string, count: number): void {
  if (count <= MAX_GROUPS) return;
  throw new NoResourcesError(
    `${verb}: a context may have ${MAX_GROUPS} groups: destroy some with destroyGroup, or use fewer`,
    { verb, errno: ENOMEM },
  );
}

/** @throws InvalidArgumentError for a group that the context has not created */
export function requireGroup(verb: string, hasGroup: boolean, name: string): void {
  if (hasGroup) return;
  throw new InvalidArgumentError(
    `${verb}: this context has no group ${shown(name)}; createGroup creates one`,
    { verb },
  );
}

/** The error of destroyGroup for a group that is in use. @param user what is in it, with its verb: 'the context is' */
export function groupInUse(name: string, user: string, remedy: string): BusyError {
  const verb = 'destroyGroup';
  return new BusyError(`${verb}: ${user} in group ${shown(name)}: ${remedy}`, { verb, errno: EBUSY });
}

/** The key that contexts of the same tenant on the same device share. A context without a tenant's name has its own. */
export function tenantKey(context: number, device: string, tenant: string): string {
  return tenant === '' ? `#${context}` : `${device} ${tenant}`;
}

/** A group: its weight, and the contexts that have created it. */
interface Group {
  weight: number;
  readonly contexts: Set<number>;
}

/** The groups of a tenant, and its open contexts. */
interface Tenant {
  readonly key: string;
  contexts: number;
  readonly groups: Map<string, Group>;
}

/**
 * The groups of all tenants of some contexts. Contexts of the same tenant on the same device share groups of the same
 * name: the last weight counts, and a group exists until no context has it any more.
 */
export class GroupTable {
  private readonly tenants = new Map<string, Tenant>();
  private readonly byContext = new Map<number, { readonly tenant: Tenant; readonly names: Set<string> }>();
  private readonly changed: (context: number, name: string, weight: number) => void;

  /** @param changed called with a context of the tenant when the weight of a group changes */
  constructor(changed: (context: number, name: string, weight: number) => void = () => {}) {
    this.changed = changed;
  }

  /** A context was opened. */
  open(context: number, device: string, tenant: string): void {
    const key = tenantKey(context, device, tenant);
    const shared = this.tenants.get(key) ?? { key, contexts: 0, groups: new Map() };
    this.tenants.set(key, shared);
    shared.contexts++;
    this.byContext.set(context, { tenant: shared, names: new Set() });
  }

  /** The groups that a context has, by name. */
  namesOf(context: number): ReadonlySet<string> {
    return this.byContext.get(context)?.names ?? new Set();
  }

  /** The weight of a group among those of the context's tenant. */
  weightOf(context: number, name: string): number {
    return this.byContext.get(context)?.tenant.groups.get(name)?.weight ?? DEFAULT_GROUP_WEIGHT;
  }

  /** Sets the weight of a group, which the context has from now on. */
  set(context: number, name: string, weight: number): void {
    const entry = this.byContext.get(context);
    if (entry === undefined) return;
    const { tenant, names } = entry;
    const group = tenant.groups.get(name) ?? { weight: DEFAULT_GROUP_WEIGHT, contexts: new Set() };
    tenant.groups.set(name, group);
    group.contexts.add(context);
    names.add(name);
    this.weigh(context, name, group, weight);
  }

  /** The context no longer has the group. */
  remove(context: number, name: string): void {
    const entry = this.byContext.get(context);
    const group = entry?.tenant.groups.get(name);
    if (entry === undefined || group === undefined) return;
    entry.names.delete(name);
    group.contexts.delete(context);
    if (group.contexts.size > 0) return;
    entry.tenant.groups.delete(name);
    this.weigh(context, name, group, DEFAULT_GROUP_WEIGHT);
  }

  /** The context is being closed, or was. */
  close(context: number): void {
    const entry = this.byContext.get(context);
    if (entry === undefined) return;
    for (const name of [...entry.names]) this.remove(context, name);
    this.byContext.delete(context);
    if (--entry.tenant.contexts === 0) this.tenants.delete(entry.tenant.key);
  }

  private weigh(context: number, name: string, group: Group, weight: number): void {
    if (group.weight === weight) return;
    group.weight = weight;
    this.changed(context, name, weight);
  }
}
