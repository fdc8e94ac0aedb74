/**
 * Static rates: a tenant has one of its own, or a share of the link by its weight among those that have queue pairs
 * there. Its members (contexts, in whichever threads and processes) have equal parts of it.
 */
import type { Tenants } from './master.ts';
import * as M from './members.ts';

/** Who gets what. Tenants are numbers here (members.ts). */
export interface ShareRules {
  readonly linkGbps: number;
  /** By tenant; who is not there has 1. */
  readonly weights: ReadonlyMap<number, number>;
  /** Rates of their own, instead of a share. */
  readonly ratesGbps: ReadonlyMap<number, number>;
}

/** Of the link: when rates of their own leave less to all others, and for who was silent and goes on. */
const LEAST_SHARE = 0.01;
const DEFAULT_WEIGHT = 1;

/** Tenants with a queue pair, as far as the rules concern them. */
class Present {
  /** By row: its members with queue pairs; and what it gets. */
  readonly members: Int32Array;
  readonly gbps: Float64Array;

  constructor(members: M.Members, tenants: Tenants, rules: ShareRules, isThere: (member: number) => boolean) {
    this.members = new Int32Array(tenants.length);
    this.gbps = new Float64Array(tenants.length);
    let ownedGbps = 0;
    let weights = 0;
    for (let row = 0; row < tenants.length; row++) {
      for (let at = tenants.from(row); at < tenants.from(row + 1); at++) {
        if (isThere(tenants.memberAt(at))) this.members[row]++;
      }
      if (this.members[row] === 0) continue;
      const tenant = members.tenants[tenants.memberAt(tenants.from(row))];
      const ownGbps = rules.ratesGbps.get(tenant);
      ownedGbps += ownGbps ?? 0;
      if (ownGbps === undefined) weights += rules.weights.get(tenant) ?? DEFAULT_WEIGHT;
    }
    const leftGbps = Math.max(rules.linkGbps - ownedGbps, rules.linkGbps * LEAST_SHARE);
    for (let row = 0; row < tenants.length; row++) {
      if (this.members[row] === 0) continue;
      const tenant = members.tenants[tenants.memberAt(tenants.from(row))];
      const byWeight = (leftGbps * (rules.weights.get(tenant) ?? DEFAULT_WEIGHT)) / weights;
      this.gbps[row] = rules.ratesGbps.get(tenant) ?? byWeight;
    }
  }
}

/**
 * Writes the rates of all members; `changed` is called with each that has another one now.
 * @param aliveSinceNs whoever has not written since then is gone, or its thread is dead
 */
export function share(
  members: M.Members,
  tenants: Tenants,
  rules: ShareRules,
  aliveSinceNs: number,
  changed: (member: number) => void,
): void {
  tenants.group(members);
  const { counters, grants } = members;
  const wants = (i: number) => counters[i * M.COUNTERS + M.RATED_QPS] >= 1;
  const isThere = (i: number) => wants(i) && !(counters[i * M.COUNTERS + M.SEEN_NS] < aliveSinceNs);
  const present = new Present(members, tenants, rules, isThere);
  for (let row = 0; row < tenants.length; row++) {
    for (let k = tenants.from(row); k < tenants.from(row + 1); k++) {
      const i = tenants.memberAt(k);
      const silentGbps = wants(i) ? rules.linkGbps * LEAST_SHARE : 0;
      const gbps = isThere(i) ? present.gbps[row] / present.members[row] : silentGbps;
      const at = i * M.GRANTS + M.RATE_GBPS;
      if (grants[at] === gbps) continue;
      grants[at] = gbps;
      changed(i);
    }
  }
}
