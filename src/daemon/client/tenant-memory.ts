/** What a client remembers of its tenants, so that new contexts begin with what their tenant was granted last. */
import type { LastGrants, RemoteMember } from './remote-coordinator.ts';

export class TenantMemory {
  /** The daemon's names of tenants, by the names that the program gives to them. */
  private readonly assigned = new Map<string, string>();
  /** What was granted to the last context of a tenant that had to leave, by device and tenant. */
  private readonly last = new Map<string, LastGrants>();

  /** The daemon has assigned contexts of this tenant to a tenant of its own. */
  assign(tenant: string, assigned: string): void {
    this.assigned.set(tenant, assigned);
  }

  /** The member is about to lose its seat. */
  remember({ device, assignedTenant, hasSeat, granted }: RemoteMember): void {
    if (!hasSeat || assignedTenant === undefined) return;
    this.last.set(keyOf(device, assignedTenant), granted);
  }

  /** What a tenant was granted last, and its name at the daemon. Null: unknown. */
  lookUp(
    members: Iterable<RemoteMember>,
    device: string,
    tenant: string,
  ): { readonly tenant: string; readonly grants: LastGrants } | null {
    const assigned = this.assigned.get(tenant);
    if (assigned === undefined) return null;
    for (const member of members) {
      const isOne = member.device === device && member.assignedTenant === assigned;
      if (isOne && member.hasSeat) return { tenant: assigned, grants: member.granted };
    }
    const grants = this.last.get(keyOf(device, assigned));
    return grants === undefined ? null : { tenant: assigned, grants };
  }
}

const keyOf = (device: string, tenant: string) => `${device}\0${tenant}`;
