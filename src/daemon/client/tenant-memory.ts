/** What a client remembers of its tenants, so that new contexts begin with what their tenant was granted last. */
import type { LastGranted, RemoteMember } from './remote-coordinator.ts';

export class TenantMemory {
  /** The daemon's names of tenants, by the names that the program gives to them. */
  private readonly assigned = new Map<string, string>();
  /** What was granted to the last context of a tenant that had to leave, by device and tenant. */
  private readonly last = new Map<string, Omit<LastGranted, 'tenant'>>();

  /** The daemon has assigned contexts of this tenant to a tenant of its own. */
  assign(tenant: string, assigned: string): void {
    this.assigned.set(tenant, assigned);
  }

  /** The member is about to lose its seat. */
  remember({ device, assignedTenant, hasSeat, granted, rates }: RemoteMember): void {
    if (!hasSeat || assignedTenant === undefined) return;
    this.last.set(keyOf(device, assignedTenant), { grants: granted, rates });
  }

  /** What a tenant was granted last. Null: unknown. */
  lookUp(members: Iterable<RemoteMember>, device: string, tenant: string): LastGranted | null {
    const assigned = this.assigned.get(tenant);
    if (assigned === undefined) return null;
    for (const member of members) {
      const isOne = member.device === device && member.assignedTenant === assigned;
      if (isOne && member.hasSeat) return { tenant: assigned, grants: member.granted, rates: member.rates };
    }
    const last = this.last.get(keyOf(device, assigned));
    return last === undefined ? null : { tenant: assigned, ...last };
  }
}

const keyOf = (device: string, tenant: string) => `${device}\0${tenant}`;
