/**
 * Static rates: a tenant has one of its own, or a share of the link by its weight among those that have queue pairs
 * there. Its members (contexts, in whichever threads and processes) have equal parts of it.
 */
import type { Tenants } from './master.ts';
import * as M from './member-table.ts';

/** Who gets what. Tenants are numbers here (members.ts). */
export interface ShareRules {
  readonly linkGbps: number;
  /** By tenant; who is not there has 1. */
  readonly weights: ReadonlyMap<number, number>;
  /** Rates of their own, instead of a share. */
  readonly ratesGbps: ReadonlyMap<number, number>;
  /** Another number whenever these say something else: until then nothing is looked up again. Absent: each time. */
  readonly revision?: number;
}

/** Of the link: when rates of their own leave less to all others. */
const MIN_SHARE = 0.01;
const DEFAULT_WEIGHT = 1;

/** What tenants get by the rules, by row: looking them up takes longer than all else here. */
export class Entitlements {
  /** A weight; below zero: a rate of its own, and no share. */
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
    for (let row = 0; row < tenants.length; row++) {
      const tenant = members.tenantIds[tenants.rowAt(tenants.firstOf(row))];
      const ownGbps = ratesGbps.size > 0 ? ratesGbps.get(tenant) : undefined;
      this.values[row] = ownGbps !== undefined ? -ownGbps : (weights.get(tenant) ?? DEFAULT_WEIGHT);
    }
  }
}

/** Tenants with a queue pair, as far as the rules concern them. */
class PresentTenants {
  /** By row: its members that are there; and what it gets, or would if one were. */
  readonly members: Int32Array;
  readonly gbps: Float64Array;

  constructor(tenants: Tenants, entitled: Float64Array, linkGbps: number, isThere: Uint8Array) {
    this.members = new Int32Array(tenants.length);
    this.gbps = new Float64Array(tenants.length);
    let ownedGbps = 0;
    let total = 0;
    for (let row = 0; row < tenants.length; row++) {
      let there = 0;
      for (let at = tenants.firstOf(row); at < tenants.firstOf(row + 1); at++)
        there += isThere[tenants.rowAt(at)];
      this.members[row] = there;
      if (there === 0) continue;
      if (entitled[row] < 0) ownedGbps -= entitled[row];
      else total += entitled[row];
    }
    const leftGbps = Math.max(linkGbps - ownedGbps, linkGbps * MIN_SHARE);
    for (let row = 0; row < tenants.length; row++) {
      const weight = entitled[row];
      const all = this.members[row] > 0 ? total : total + weight;
      this.gbps[row] = weight < 0 ? -weight : (leftGbps * weight) / all;
    }
  }
}

/**
 * Writes the rates of all members; `changed` is called with each that has queue pairs and another rate now. One that has
 * none, or is silent, has what it would get if it opened one or went on now, though it takes nothing from the others
 * until then: a coordinator that stops answering must leave everybody with a share.
 * @param aliveSinceNs whoever has not written since then is gone, or its thread is dead
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
  for (let row = 0; row < tenants.length; row++) {
    for (let k = tenants.firstOf(row); k < tenants.firstOf(row + 1); k++) {
      const i = tenants.rowAt(k);
      const gbps = present.gbps[row] / (present.members[row] + 1 - isThere[i]);
      const at = i * M.GRANTS + M.RATE_GBPS;
      if (grants[at] === gbps) continue;
      grants[at] = gbps;
      marks[i] |= M.RATE_CHANGED;
      if (counters[i * M.COUNTERS + M.RATED_QPS] >= 1) changed(i);
    }
  }
}
