/**
 * Static rates: a tenant has a rate of its own, or a share of the link by its weight among the tenants that have queue
 * pairs there. Its members (contexts in any thread or process) have equal parts of it.
 */
import type { Tenants } from './master.ts';
import * as M from './member-table.ts';

/** The rates that tenants are entitled to. Tenants are numbers here (tenantId in coordinator.ts). */
export interface ShareRules {
  readonly linkGbps: number;
  /** By tenant; default 1. */
  readonly weights: ReadonlyMap<number, number>;
  /** By tenant: a fixed rate instead of a share. */
  readonly ratesGbps: ReadonlyMap<number, number>;
  /** Changes whenever the rules do. Until then, nothing is looked up again. Absent: look up every time. */
  readonly revision?: number;
}

/** The minimum part of the link that fixed rates leave to the other tenants. */
const MIN_SHARE = 0.01;
const DEFAULT_WEIGHT = 1;

/** The tenants' entitlements, cached because the look-ups take longer than everything else here. */
export class Entitlements {
  /** By tenant: its weight, or its fixed rate in Gbit/s as a negative number. */
  values = new Float64Array(0);
  private rules: ShareRules | null = null;
  private revision: number | undefined;
  private version = -1;

  update(members: M.MemberTable, tenants: Tenants, rules: ShareRules): void {
    const { revision, weights, ratesGbps } = rules;
    const isKnown = revision !== undefined && revision === this.revision && rules === this.rules;
    if (isKnown && this.version === tenants.version) return;
    [this.rules, this.revision, this.version] = [rules, revision, tenants.version];
    if (this.values.length < tenants.length) this.values = new Float64Array(2 * tenants.length);
    for (let tenant = 0; tenant < tenants.length; tenant++) {
      const id = members.tenantIds[tenants.rowAt(tenants.firstOf(tenant))];
      const ownGbps = ratesGbps.size > 0 ? ratesGbps.get(id) : undefined;
      this.values[tenant] = ownGbps !== undefined ? -ownGbps : (weights.get(id) ?? DEFAULT_WEIGHT);
    }
  }
}

/** The tenants that have queue pairs, and the rate of each. */
class PresentTenants {
  /** By tenant: the number of its members that are present, and its rate, or the rate it would have if one were. */
  readonly members: Int32Array;
  readonly gbps: Float64Array;

  constructor(tenants: Tenants, entitled: Float64Array, linkGbps: number, isThere: Uint8Array) {
    this.members = new Int32Array(tenants.length);
    this.gbps = new Float64Array(tenants.length);
    let ownedGbps = 0;
    let total = 0;
    for (let tenant = 0; tenant < tenants.length; tenant++) {
      let there = 0;
      for (let at = tenants.firstOf(tenant); at < tenants.firstOf(tenant + 1); at++)
        there += isThere[tenants.rowAt(at)];
      this.members[tenant] = there;
      if (there === 0) continue;
      if (entitled[tenant] < 0) ownedGbps -= entitled[tenant];
      else total += entitled[tenant];
    }
    const leftGbps = Math.max(linkGbps - ownedGbps, linkGbps * MIN_SHARE);
    for (let tenant = 0; tenant < tenants.length; tenant++) {
      const weight = entitled[tenant];
      const all = this.members[tenant] > 0 ? total : total + weight;
      this.gbps[tenant] = weight < 0 ? -weight : (leftGbps * weight) / all;
    }
  }
}

/**
 * Writes the rates of all members, and calls `changed` with each that has queue pairs and a new rate. A member that is
 * silent or has no queue pairs is granted the rate that it would have if it became active, but takes nothing from the
 * others until then: if the coordinator stops answering, every member must be left with a share.
 * @param aliveSinceNs members that have not written since then count as absent
 */
export function share(
  members: M.MemberTable,
  tenants: Tenants,
  entitlements: Entitlements,
  rules: ShareRules,
  aliveSinceNs: number,
  changed: (member: number) => void,
): void {
  tenants.group(members);
  entitlements.update(members, tenants, rules);
  const { counters, grants, marks, rowLimit } = members;
  const isThere = new Uint8Array(rowLimit);
  for (let i = 0; i < rowLimit; i++) {
    const at = i * M.COUNTERS;
    isThere[i] = counters[at + M.RATED_QPS] >= 1 && !(counters[at + M.WRITTEN_NS] < aliveSinceNs) ? 1 : 0;
  }
  const present = new PresentTenants(tenants, entitlements.values, rules.linkGbps, isThere);
  for (let tenant = 0; tenant < tenants.length; tenant++) {
    for (let k = tenants.firstOf(tenant); k < tenants.firstOf(tenant + 1); k++) {
      const i = tenants.rowAt(k);
      const gbps = present.gbps[tenant] / (present.members[tenant] + 1 - isThere[i]);
      const at = i * M.GRANTS + M.RATE_GBPS;
      if (grants[at] === gbps) continue;
      grants[at] = gbps;
      marks[i] |= M.RATE_CHANGED;
      if (counters[i * M.COUNTERS + M.RATED_QPS] >= 1) changed(i);
    }
  }
}
