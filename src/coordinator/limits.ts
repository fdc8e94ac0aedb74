/**
 * The limits of tenants as a ruler: divides those of each tenant among its members, in queue pairs and in requests per
 * second. The shim enforces them under every policy, so all members have columns for them.
 */
import { MEMBER, NONE_ALLOWED, TENANT } from './member-table.ts';
import type { Decider, MembersView, Ruler } from './ruler.ts';
import { SendingMembers } from './sending-members.ts';

const MAX_QPS = 2 ** 24;

const columnsOf = (members: MembersView) => ({
  limitQps: members.report('maxQps', TENANT),
  limitRequestsPerS: members.report('maxRequestsPerS', TENANT),
  heldRequests: members.report('heldRequests', MEMBER),
  qps: members.report('qps', MEMBER),
  maxQps: members.grant('maxQps', MEMBER),
  countedQps: members.grant('countedQps', MEMBER),
  maxRequestsPerS: members.grant('maxRequestsPerS', MEMBER),
  tenantRequestsPerS: members.grant('tenantRequestsPerS', MEMBER),
});

class TenantLimits implements Decider<null> {
  private readonly members: MembersView;
  private readonly columns: ReturnType<typeof columnsOf>;
  /** A member that sends nothing, and holds nothing, leaves its part of the requests to others. */
  private readonly sending: SendingMembers;
  /** By member: the queue pairs that it was allowed at the last decision; NaN: there was no limit. */
  private allowedQps = new Float64Array(0);
  /** By member, 1: it sends. */
  private sends = new Uint8Array(0);
  /** Whether any tenant had limits at the last decision. */
  private hadLimits = false;

  constructor(members: MembersView) {
    this.members = members;
    this.columns = columnsOf(members);
    this.sending = new SendingMembers(members, members.report('sentRequests', MEMBER));
  }

  /**
   * Of the queue pairs, a member may have those it has and all that are unused. A member that reports one more than it has
   * asks for it: of several that ask for the last one, the first gets it. The requests are divided equally among the
   * members that send. A member that does not send gets the part it would have if all members sent; this holds until the
   * first decision after it starts to send. The parts may therefore add up to more than the limit, which a process must
   * not exceed.
   */
  decide(_rules: null, nowNs: number, changed: (member: number) => void): void {
    const { tenants } = this.members;
    const { limitQps, limitRequestsPerS } = this.columns;
    tenants.group();
    this.forgetLeft();
    const { hadLimits } = this;
    this.hadLimits = false;
    for (let tenant = 0; tenant < tenants.length; tenant++) {
      const first = tenants.memberAt(tenants.firstOf(tenant));
      const isLimited = limitQps.of(first) > 0 || limitRequestsPerS.of(first) > 0;
      if (isLimited) this.hadLimits = true;
      if (isLimited || hadLimits) this.divide(tenant, nowNs, changed);
    }
  }

  /** Another member may take the row of one that left. */
  private forgetLeft(): void {
    if (!this.sending.forgetLeft()) return;
    const { tenants } = this.members;
    const size = tenants.memberLimit;
    if (this.sends.length < size) {
      const { allowedQps } = this;
      this.allowedQps = new Float64Array(2 * size).fill(Number.NaN);
      this.allowedQps.set(allowedQps);
      this.sends = new Uint8Array(2 * size);
    }
    for (let member = 0; member < size; member++)
      if (tenants.tenantOf(member) < 0) this.allowedQps[member] = Number.NaN;
  }

  private qpsOf(member: number): number {
    return Math.min(Math.floor(this.columns.qps.of(member)), MAX_QPS);
  }

  private divide(tenant: number, nowNs: number, changed: (member: number) => void): void {
    const { columns, sends } = this;
    const { tenants } = this.members;
    const [first, end] = [tenants.firstOf(tenant), tenants.firstOf(tenant + 1)];
    let sending = 0;
    for (let k = first; k < end; k++) {
      const member = tenants.memberAt(k);
      const isSending = this.sending.isSending(member, nowNs) || columns.heldRequests.of(member) > 0;
      sends[member] = isSending ? 1 : 0;
      sending += sends[member];
    }
    const limitQps = columns.limitQps.of(tenants.memberAt(first));
    const limitRequestsPerS = columns.limitRequestsPerS.of(tenants.memberAt(first));
    const unused = this.allowQps(tenant, limitQps);
    for (let k = first; k < end; k++) {
      const member = tenants.memberAt(k);
      const maxQps = limitQps === 0 ? 0 : this.allowedQps[member] + unused || NONE_ALLOWED;
      const perS = limitRequestsPerS / (sends[member] === 1 ? sending : end - first);
      const isNewQps = columns.maxQps.set(member, maxQps);
      columns.countedQps.set(member, this.qpsOf(member));
      columns.tenantRequestsPerS.set(member, limitRequestsPerS);
      if (columns.maxRequestsPerS.set(member, perS) || isNewQps) changed(member);
    }
  }

  /** Allows the members of a tenant the queue pairs that they report, within its limit. Returns how many are unused. */
  private allowQps(tenant: number, limitQps: number): number {
    const { allowedQps } = this;
    const { tenants } = this.members;
    const [first, end] = [tenants.firstOf(tenant), tenants.firstOf(tenant + 1)];
    let unused = limitQps;
    for (let k = first; k < end; k++) {
      const member = tenants.memberAt(k);
      const qps = this.qpsOf(member);
      // Those that existed before the limit stay.
      if (!(allowedQps[member] < qps)) allowedQps[member] = qps;
      unused -= allowedQps[member];
    }
    for (let k = first; k < end; k++) {
      const member = tenants.memberAt(k);
      const more = this.qpsOf(member) - allowedQps[member];
      if (limitQps === 0) allowedQps[member] = Number.NaN;
      else if (more > 0 && more <= unused) {
        allowedQps[member] += more;
        unused -= more;
      }
    }
    return Math.max(0, unused);
  }
}

/** The ruler of the limits, which are those of each member's tenant (TENANT): it has no other rules. */
export const limits: Ruler<null> = {
  name: 'limits',
  reports: [],
  grants: [],
  rules: { safeParse: () => ({ success: true, data: null }) },
  begin: (members) => new TenantLimits(members),
};
