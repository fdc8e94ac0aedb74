/** Groups of connections that may share carriers, and which carrier takes one more connection. */
import type { QpAttr } from '../../verbs/types.ts';
import type { QpLedger } from '../qp-ledger.ts';
import type { Carrier } from './carrier.ts';
import type { Group, Membership } from './membership.ts';

/** Contexts that a device's cache has room for, unless it says otherwise: DRUM, section II.D. */
const CACHED_QPS = 20;
const LEAST_SHARED = 4;

export class Groups {
  private readonly groups = new Map<string, Group>();
  private readonly most: number;
  private readonly always: boolean;

  /** @param host the most connections that share a carrier, and whether so many do even if the cache has room */
  constructor({ most, always }: { most: number; always: boolean }) {
    this.most = most;
    this.always = always;
  }

  /** The group of a connection that is connected with these attributes. */
  groupOf(qp: QpLedger, attr: QpAttr): Group {
    const { ah, pathMtu, timeout, retryCnt, rnrRetry, maxRdAtomic, maxDestRdAtomic } = attr;
    const path = [ah, pathMtu, timeout, retryCnt, rnrRetry, maxRdAtomic, maxDestRdAtomic];
    const key = JSON.stringify([qp.pd, qp.share!.own.peer!.rkey, qp.sges, qp.inlineBytes, path]);
    let group = this.groups.get(key);
    if (group === undefined) {
      group = { members: 0, carriers: [] };
      this.groups.set(key, group);
    }
    return group;
  }

  /** No further connection may use this carrier. */
  retire(own: Carrier): void {
    for (const [key, group] of this.groups) {
      const at = group.carriers.indexOf(own);
      if (at >= 0) group.carriers.splice(at, 1);
      if (group.carriers.length === 0) this.groups.delete(key);
    }
  }

  /** How many connections should share a carrier at present; 1: none, because the cache of the device has room. */
  mostAt({ context }: QpLedger, { load }: Membership): number {
    const { most, always } = this;
    if (always) return most;
    const cached = context.nic?.cachedQps ?? CACHED_QPS;
    return load.qps <= cached ? 1 : Math.min(most, Math.max(LEAST_SHARED, Math.ceil(load.qps / cached)));
  }

  /** A carrier for one more connection of a group. */
  carrierFor(qp: QpLedger, share: Membership): Carrier | undefined {
    return carrierOf(share.group!, this.mostAt(qp, share));
  }
}

/**
 * The carrier with the fewest users, among as few as the group needs. Connections that were made one after the other
 * thus use different carriers, because policies serve them at the same time.
 */
function carrierOf({ carriers, members }: Group, most: number): Carrier | undefined {
  let best: Carrier | undefined;
  let left = Math.ceil(members / most);
  for (const carrier of carriers) {
    if (left === 0) break;
    if (!carrier.isUsable) continue;
    left--;
    if (best === undefined || carrier.users < best.users) best = carrier;
  }
  return best;
}
