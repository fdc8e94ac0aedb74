/** The weights with which the members of a device count. */
import { TENANT } from '../../coordinator/member-table.ts';
import type { MembersView, ReportColumn } from '../../coordinator/ruler.ts';

/**
 * What members report, held to what is declared of their tenants where members are in other processes. The daemon knows
 * the weight of each tenant, and a program could write any other into its page.
 */
export class MemberWeights {
  /** Whether a member has its tenant's weight once. Otherwise, only the member knows what it has shares for. */
  isByContext = true;
  private readonly hungry: ReportColumn;
  private readonly latency: ReportColumn;
  /** Null: members of this process declare their weights themselves. */
  private readonly declared: ReportColumn | null;

  constructor(members: MembersView) {
    this.hungry = members.report('hungryWeight');
    this.latency = members.report('latencyWeight');
    this.declared = members.isRemote ? members.report('weight', TENANT) : null;
  }

  /** The weight of what a member has to send. */
  hungryOf(member: number): number {
    return this.held(member, this.hungry.of(member));
  }

  /** A weight that a member claims for what it sends, held to what it may have. */
  held(member: number, weight: number): number {
    const { declared } = this;
    return declared !== null && this.isByContext ? Math.min(weight, declared.of(member)) : weight;
  }

  /** The weight of a member's latency applications. */
  latencyOf(member: number): number {
    const weight = this.latency.of(member);
    return this.declared === null ? weight : Math.min(weight, this.declared.of(member));
  }
}
