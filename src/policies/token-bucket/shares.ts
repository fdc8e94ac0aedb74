/**
 * Static rates: a tenant has a rate of its own, or a share of the link by its weight among the tenants that have queue
 * pairs there. Its members (contexts in any thread or process) have equal parts of it.
 */
import { MEMBER, type MemberPage, PAID_BYTES, TENANT } from '../../coordinator/member-table.ts';
import {
  type Column,
  columnIndex,
  type Decider,
  type Description,
  type GrantColumn,
  type MemberColumns,
  type MembersView,
  type ReportColumn,
  type Ruler,
} from '../../coordinator/ruler.ts';
import { type Tenants, tenantId } from '../../coordinator/tenants.ts';
import type { ContextView } from '../../shim/policy.ts';
import { type TokenBucketOptions, tokenBucketOptions } from './options.ts';

/** The columns of `shares`. Rulers of other policies have the same, and more behind them. */
export const SHARE_REPORTS: readonly Column[] = [
  { name: 'ratedQps', unit: 'queue pairs that require a rate', min: 0, max: 2 ** 20, default: 0 },
];
/** See SHARE_REPORTS. */
export const SHARE_GRANTS: readonly Column[] = [
  { name: 'rateGbps', unit: 'Gbit/s on the wire', min: 0, max: 1e9, default: 0, alone: 1e5, joining: 0 },
  { name: 'tenantGbps', unit: 'Gbit/s of all members of the tenant', min: 0, max: 1e9, default: 0 },
];

/** Indices of the columns in a member's page. */
export const RATED_QPS = columnIndex(SHARE_REPORTS, 'ratedQps');
export const RATE_GBPS = columnIndex(SHARE_GRANTS, 'rateGbps');
/** See RATED_QPS. */
export const TENANT_GBPS = columnIndex(SHARE_GRANTS, 'tenantGbps');

/** A context, as the coordinator knows it. */
export interface Sharer {
  readonly page: MemberPage;
  /** Its columns of the ruler `shares`. */
  readonly columns: MemberColumns;
}

/** A context, and the number of its queue pairs. */
export interface Member extends Sharer {
  readonly context: ContextView;
  qps: number;
  /** The key of its entity (its tenant at a daemon, whatever the program calls it), which stays while it has queue pairs. */
  key: string;
}

/**
 * The rate that contexts of one tenant are granted together. That is never more than the tenant's, although parts are not
 * granted anew while a daemon is away. Asking shows that they are alive, and reports the bytes on
 * the wire that they have sent since the last call.
 */
export function grantedGbps(sharers: readonly Sharer[], paidBytes: number): number {
  let gbps = 0;
  let mostGbps = Number.POSITIVE_INFINITY;
  sharers[0].page.counters[PAID_BYTES] += paidBytes;
  for (const { page, columns } of sharers) {
    // A context that sends is alive.
    page.beat();
    const partGbps = columns.grants[RATE_GBPS];
    gbps += partGbps;
    // Without a daemon that has granted something, the tenant's rate is unknown.
    const tenantGbps = columns.grants[TENANT_GBPS];
    if (partGbps > 0 && tenantGbps > 0) mostGbps = Math.min(mostGbps, tenantGbps);
  }
  return Math.min(gbps, mostGbps);
}

/** The rates that tenants are entitled to. Tenants are numbers here (tenantId in src/coordinator/tenants.ts). */
export interface ShareRules {
  /** Instead of the rate that the device reports. */
  readonly linkGbps?: number;
  /** By tenant; default: the weight that is declared of the tenant. */
  readonly weights: ReadonlyMap<number, number>;
  /** By tenant: a fixed rate instead of a share; default: the rate that is declared of the tenant, if there is one. */
  readonly ratesGbps: ReadonlyMap<number, number>;
  /** By tenant: the most requests per second; absent: no limit. A daemon has limits of its own. */
  readonly requestsPerS?: ReadonlyMap<number, number>;
  /** Whether tenants without a fixed rate have a share of what is left of the link. */
  readonly shared: boolean;
  /** A member that has not written for this long counts as absent. Absent: silence has no effect. */
  readonly silentNs?: number;
}

/** The minimum part of the link that fixed rates leave to the other tenants. */
const MIN_SHARE = 0.01;

/** Assumed for a link of unknown rate, so high that a share of it limits no tenant. */
const UNKNOWN_LINK_GBPS = 1e5;

/** The rate of a tenant without a limit, all of whose members together have it. */
export const UNLIMITED_GBPS = 1e5;

/** The tenants' entitlements. Those by name are cached, because looking them up takes longer than everything else here. */
class Entitlements {
  /** By tenant: its weight, or its fixed rate in Gbit/s as a negative number. */
  values = new Float64Array(0);
  /** By tenant: the value that the rules have for its name; NaN: none. */
  private named = new Float64Array(0);
  private readonly weight: ReportColumn;
  private readonly gbps: ReportColumn;
  private rules: ShareRules | null = null;
  private version = -1;

  constructor(members: MembersView) {
    this.weight = members.report('weight', TENANT);
    this.gbps = members.report('gbps', TENANT);
  }

  update(tenants: Tenants, rules: ShareRules): void {
    if (rules !== this.rules || this.version !== tenants.version) this.lookUp(tenants, rules);
    const { values, named, weight, gbps } = this;
    for (let tenant = 0; tenant < tenants.length; tenant++) {
      const first = tenants.memberAt(tenants.firstOf(tenant));
      const ownGbps = gbps.of(first);
      const declared = ownGbps > 0 ? -ownGbps : weight.of(first);
      values[tenant] = Number.isNaN(named[tenant]) ? declared : named[tenant];
    }
  }

  private lookUp(tenants: Tenants, rules: ShareRules): void {
    const { weights, ratesGbps } = rules;
    [this.rules, this.version] = [rules, tenants.version];
    if (this.values.length < tenants.length) {
      this.values = new Float64Array(2 * tenants.length);
      this.named = new Float64Array(2 * tenants.length);
    }
    this.named.fill(Number.NaN);
    if (weights.size + ratesGbps.size === 0) return;
    for (let tenant = 0; tenant < tenants.length; tenant++) {
      const id = tenants.idOf(tenant);
      const ownGbps = ratesGbps.get(id);
      this.named[tenant] = ownGbps !== undefined ? -ownGbps : (weights.get(id) ?? Number.NaN);
    }
  }
}

/** The tenants that have queue pairs, and the rate of each. */
class PresentTenants {
  /** By tenant: the number of its members that are present, and its rate, or the rate it would have if one were. */
  readonly members: Int32Array;
  readonly gbps: Float64Array;

  constructor(
    tenants: Tenants,
    entitled: Float64Array,
    { linkGbps, shared }: { linkGbps: number; shared: boolean },
    isThere: Uint8Array,
  ) {
    this.members = new Int32Array(tenants.length);
    this.gbps = new Float64Array(tenants.length);
    let ownedGbps = 0;
    let total = 0;
    for (let tenant = 0; tenant < tenants.length; tenant++) {
      let there = 0;
      for (let at = tenants.firstOf(tenant); at < tenants.firstOf(tenant + 1); at++)
        there += isThere[tenants.memberAt(at)];
      this.members[tenant] = there;
      if (there === 0) continue;
      if (entitled[tenant] < 0) ownedGbps -= entitled[tenant];
      else total += entitled[tenant];
    }
    const leftGbps = shared ? Math.max(linkGbps - ownedGbps, linkGbps * MIN_SHARE) : UNLIMITED_GBPS;
    for (let tenant = 0; tenant < tenants.length; tenant++) {
      const weight = entitled[tenant];
      const all = this.members[tenant] > 0 ? total : total + weight;
      // A fixed rate above that of the link would limit nothing, and leave the others less than their shares.
      const fixedGbps = Math.min(-weight, linkGbps);
      this.gbps[tenant] = weight < 0 ? fixedGbps : shared ? (leftGbps * weight) / all : leftGbps;
    }
  }
}

/** Decides the rates of tenants, in the columns of `shares`. */
export class Shares implements Decider<ShareRules> {
  private readonly members: MembersView;
  private readonly ratedQps: ReportColumn;
  private readonly rateGbps: GrantColumn;
  private readonly tenantGbps: GrantColumn;
  /** The shim limits requests by these columns, under any policy. */
  private readonly maxRequestsPerS: GrantColumn;
  private readonly tenantRequestsPerS: GrantColumn;
  private readonly entitlements: Entitlements;
  /** Whether tenants without fixed rates may send at any rate. */
  private isUnlimited = false;

  constructor(members: MembersView) {
    this.members = members;
    this.entitlements = new Entitlements(members);
    this.ratedQps = members.report('ratedQps');
    this.rateGbps = members.grant('rateGbps');
    this.tenantGbps = members.grant('tenantGbps');
    this.maxRequestsPerS = members.grant('maxRequestsPerS', MEMBER);
    this.tenantRequestsPerS = members.grant('tenantRequestsPerS', MEMBER);
  }

  /**
   * Writes the rates of all members, and calls `changed` with each that has queue pairs and a new rate. A member that is
   * silent or has no queue pairs is granted the rate that it would have if all of its tenant's became active, but takes
   * nothing from the others until then: if the coordinator stops answering, every member must be left with a share.
   */
  decide(rules: ShareRules, nowNs: number, changed: (member: number) => void): void {
    const { members, entitlements, ratedQps, rateGbps, tenantGbps } = this;
    const { tenants } = members;
    const { linkGbps = members.linkGbps || UNKNOWN_LINK_GBPS, silentNs, shared } = rules;
    this.isUnlimited = !shared || linkGbps === UNKNOWN_LINK_GBPS;
    tenants.group();
    entitlements.update(tenants, rules);
    const isThere = new Uint8Array(tenants.memberLimit);
    for (let member = 0; member < isThere.length; member++) {
      isThere[member] = ratedQps.of(member) >= 1 && !members.isSilent(member, nowNs, silentNs) ? 1 : 0;
    }
    const present = new PresentTenants(tenants, entitlements.values, { linkGbps, shared }, isThere);
    for (let tenant = 0; tenant < tenants.length; tenant++) {
      const [first, end] = [tenants.firstOf(tenant), tenants.firstOf(tenant + 1)];
      for (let k = first; k < end; k++) {
        const member = tenants.memberAt(k);
        const sharers = isThere[member] === 1 ? present.members[tenant] : end - first;
        tenantGbps.set(member, present.gbps[tenant]);
        const isNewRate = rateGbps.set(member, present.gbps[tenant] / sharers);
        const isNewLimit = this.limitRequests(
          member,
          rules.requestsPerS?.get(tenants.idOf(tenant)) ?? 0,
          sharers,
        );
        if ((isNewRate || isNewLimit) && ratedQps.of(member) >= 1) changed(member);
      }
    }
  }

  /** Grants a member its part of the requests of its tenant. Returns whether it has changed. @param perS 0: no limit */
  private limitRequests(member: number, perS: number, sharers: number): boolean {
    if (this.members.isRemote) return false;
    this.tenantRequestsPerS.set(member, perS);
    return this.maxRequestsPerS.set(member, perS / sharers);
  }

  describe(tenant: number): Description {
    const { ratedQps, rateGbps } = this;
    // A share of a link of unknown rate is not a rate that a reader could use.
    if (this.isUnlimited && this.entitlements.values[tenant] > 0) return { rateGbps: 0 };
    const { tenants } = this.members;
    let [ratedGbps, otherGbps] = [0, 0];
    for (let k = tenants.firstOf(tenant); k < tenants.firstOf(tenant + 1); k++) {
      const member = tenants.memberAt(k);
      const gbps = rateGbps.of(member);
      if (ratedQps.of(member) >= 1) ratedGbps += gbps;
      else otherGbps += gbps;
    }
    // Members that take no part of the rate only show what they could get: that is another claim to the same link, not
    // more of it.
    return { rateGbps: ratedGbps > 0 ? ratedGbps : otherGbps };
  }
}

const byNumber = (byName: Readonly<Record<string, number>>): Map<number, number> =>
  new Map(Object.entries(byName).map(([tenant, value]) => [tenantId(tenant), value]));

/** The options of token-bucket as rules. */
export function shareRulesOf({
  weights,
  ratesGbps,
  ratesRequestsPerS,
  linkGbps,
  others,
}: Pick<
  TokenBucketOptions,
  'weights' | 'ratesGbps' | 'ratesRequestsPerS' | 'linkGbps' | 'others'
>): ShareRules {
  return {
    linkGbps,
    weights: byNumber(weights),
    ratesGbps: byNumber(ratesGbps),
    requestsPerS: byNumber(ratesRequestsPerS),
    shared: others === 'share',
  };
}

/** The ruler of token-bucket: grants each member its rate. */
export const shares: Ruler<ShareRules> = {
  name: 'shares',
  reports: SHARE_REPORTS,
  grants: SHARE_GRANTS,
  // A daemon has rules and settings of its own for each tenant, which take the place of weights and rates by name.
  rules: tokenBucketOptions.transform(({ linkGbps, others }) =>
    shareRulesOf({ linkGbps, others, weights: {}, ratesGbps: {}, ratesRequestsPerS: {} }),
  ),
  begin: (members) => new Shares(members),
};
