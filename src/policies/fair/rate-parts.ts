/**
 * The rates that a daemon gives to tenants (`gbps`). The ruler of fair divides the rate of each tenant among its members,
 * and each process keeps to what its members are granted (daemon-rates.ts).
 */
import { NONE_ALLOWED, TENANT } from '../../coordinator/member-table.ts';
import { type Column, columnIndex, type GrantColumn, type MembersView } from '../../coordinator/ruler.ts';
import { SendingMembers } from '../../coordinator/sending-members.ts';
import { WINDOW_GRANTS } from '../link/columns.ts';

/** The columns that the ruler grants in addition to those of windows; 0: no limit. */
export const RATE_GRANTS: readonly Column[] = [
  {
    name: 'partGbps',
    unit: 'Gbit/s on the wire; negative: nothing',
    min: NONE_ALLOWED,
    max: 1e6,
    default: 0,
    joining: NONE_ALLOWED,
  },
  // The parts may add up to more than this for a moment, and a process must not send more.
  { name: 'tenantGbps', unit: 'Gbit/s of all members of the tenant', min: 0, max: 1e6, default: 0 },
];

/** Indices of the columns in a member's page. */
export const PART_GBPS = WINDOW_GRANTS.length + columnIndex(RATE_GRANTS, 'partGbps');
/** See PART_GBPS. */
export const TENANT_GBPS = WINDOW_GRANTS.length + columnIndex(RATE_GRANTS, 'tenantGbps');

/** Divides the rates of tenants at one device of a daemon. */
export class RateParts {
  private readonly members: MembersView;
  private readonly gbps: { of(member: number): number };
  private readonly partGbps: GrantColumn;
  private readonly tenantGbps: GrantColumn;
  private readonly sending: SendingMembers;
  /** By member, 1: it sends. */
  private sends = new Uint8Array(0);
  /** Whether any tenant had a rate at the last decision. */
  private hadRates = false;

  constructor(members: MembersView) {
    this.members = members;
    this.gbps = members.report('gbps', TENANT);
    this.partGbps = members.grant('partGbps');
    this.tenantGbps = members.grant('tenantGbps');
    // Other reports of usage are those of the outermost policy of a program.
    this.sending = new SendingMembers(members, members.report('wireBytes'));
  }

  /**
   * Grants each member that sends an equal part of its tenant's rate, and all others the part that they would have if all
   * members sent. Tenants must be grouped.
   */
  decide(nowNs: number, changed: (member: number) => void): void {
    const { tenants } = this.members;
    if (this.sending.forgetLeft() && this.sends.length < tenants.memberLimit)
      this.sends = new Uint8Array(2 * tenants.memberLimit);
    const { hadRates } = this;
    this.hadRates = false;
    for (let tenant = 0; tenant < tenants.length; tenant++) {
      const gbps = this.gbps.of(tenants.memberAt(tenants.firstOf(tenant)));
      if (gbps > 0) this.hadRates = true;
      if (gbps > 0 || hadRates) this.divide(tenant, gbps, nowNs, changed);
    }
  }

  private divide(tenant: number, gbps: number, nowNs: number, changed: (member: number) => void): void {
    const { sends, partGbps, tenantGbps } = this;
    const { tenants } = this.members;
    const [first, end] = [tenants.firstOf(tenant), tenants.firstOf(tenant + 1)];
    let sending = 0;
    for (let k = first; k < end; k++) {
      const member = tenants.memberAt(k);
      sends[member] = this.sending.isSending(member, nowNs) ? 1 : 0;
      sending += sends[member];
    }
    for (let k = first; k < end; k++) {
      const member = tenants.memberAt(k);
      const isNewPart = partGbps.set(member, gbps / (sends[member] === 1 ? sending : end - first));
      if (tenantGbps.set(member, gbps) || isNewPart) changed(member);
    }
  }
}
