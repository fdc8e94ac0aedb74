/**
 * The ruler of tassel: the rate of each tenant, which its members share, and the rates that are active elsewhere. System
 * time must slow down in all processes alike once the rates of all of them exceed the link.
 */
import {
  type Column,
  columnIndex,
  type Decider,
  type Description,
  type GrantColumn,
  type MembersView,
  type ReportColumn,
  type Ruler,
} from '../../coordinator/ruler.ts';
import {
  SHARE_GRANTS,
  SHARE_REPORTS,
  type ShareRules,
  Shares,
  shareRulesOf,
} from '../token-bucket/shares.ts';
import { type TasselOptions, tasselOptions } from './options.ts';

const GBPS = { unit: 'Gbit/s on the wire', min: 0, max: 1e6, default: 0 };
const REPORTS: readonly Column[] = [...SHARE_REPORTS, { name: 'activeGbps', ...GBPS }];
const GRANTS: readonly Column[] = [...SHARE_GRANTS, { name: 'othersGbps', ...GBPS, max: 1e9 }];

/** The sum of the rates of a member's queue pairs that have something to send, and that of all other members. */
export const ACTIVE_GBPS = columnIndex(REPORTS, 'activeGbps');
export const OTHERS_GBPS = columnIndex(GRANTS, 'othersGbps');
/** Changes of the sum of other members below this part of the link are not worth a message. */
const LEAST_CHANGE = 1e-3;

class TasselRates implements Decider<ShareRules> {
  private readonly members: MembersView;
  private readonly shares: Shares;
  private readonly active: ReportColumn;
  private readonly others: GrantColumn;

  constructor(members: MembersView) {
    this.members = members;
    this.shares = new Shares(members);
    this.active = members.report('activeGbps');
    this.others = members.grant('othersGbps');
  }

  decide(rules: ShareRules, nowNs: number, changed: (member: number) => void): void {
    this.shares.decide(rules, nowNs, changed);
    const { members, active, others } = this;
    const { tenants, linkGbps } = members;
    const there = (member: number) => tenants.tenantOf(member) >= 0 && !members.isSilent(member, nowNs);
    let sum = 0;
    // What a member claims beyond the link would slow down all others.
    const claim = (member: number) => Math.min(active.of(member), linkGbps || Number.POSITIVE_INFINITY);
    for (let member = 0; member < tenants.memberLimit; member++) if (there(member)) sum += claim(member);
    for (let member = 0; member < tenants.memberLimit; member++) {
      if (!there(member)) continue;
      const gbps = Math.max(0, sum - claim(member));
      const isNews = Math.abs(gbps - others.of(member)) > LEAST_CHANGE * linkGbps;
      if (isNews && others.set(member, gbps)) changed(member);
    }
  }

  describe(tenant: number): Description {
    return this.shares.describe(tenant);
  }
}

/** The options of tassel as rules: tenants without a rate have no limit. */
export const rateRulesOf = ({ ratesGbps }: Pick<TasselOptions, 'ratesGbps'>): ShareRules =>
  shareRulesOf({ ratesGbps, weights: {}, ratesRequestsPerS: {}, others: 'unlimited' });

/** The ruler of tassel. */
export const tasselRates: Ruler<ShareRules> = {
  name: 'tasselRates',
  reports: REPORTS,
  grants: GRANTS,
  // A daemon has rates of its own for each tenant, which take the place of those by name.
  rules: tasselOptions.transform(() => rateRulesOf({ ratesGbps: {} })),
  begin: (members) => new TasselRates(members),
};
