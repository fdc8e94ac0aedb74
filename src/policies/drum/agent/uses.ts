/** What the contexts of a host do, as they report it, and the applications that follow from it. */
import { TENANT } from '../../../coordinator/member-table.ts';
import type { MembersView, ReportColumn } from '../../../coordinator/ruler.ts';
import { tenantId } from '../../../coordinator/tenants.ts';
import { MOST_DESTINATIONS } from '../solver/problem.ts';
import { LEAST_PER, MOST_REPORTS, MOST_WEIGHT, type Use } from './messages.ts';
import type { Demand } from './model.ts';

/** Applications beyond this number are left to the solution of their own processes. */
const MOST_APPLICATIONS = MOST_REPORTS;
/** The peer of a GID that is the host's own, and of a host without an agent. */
export const OWN_HOST = -2;
export const UNKNOWN_HOST = -1;

/** The sums over the contexts of an application. */
interface Application {
  readonly key: number;
  weight: number;
  requests: number;
  /** Completions by peer. */
  readonly completions: Map<number, number>;
}

/** The uses of all contexts of a host. */
export class Uses {
  private readonly members: MembersView;
  private readonly weight: ReportColumn;
  private readonly byMember = new Map<number, Use>();
  /** Identifies the host: applications of contexts without a tenant exist only here. */
  private readonly hostName: string;

  constructor(members: MembersView, hostName: string) {
    this.members = members;
    this.weight = members.report('weight', TENANT);
    this.hostName = hostName;
  }

  /** A context reports what it does. */
  set(member: number, use: Use): void {
    this.byMember.set(member, use);
  }

  /** A context has left. Returns whether it had reported anything. */
  remove(member: number): boolean {
    return this.byMember.delete(member);
  }

  /** The contexts of each application: all, and those that send. */
  contexts(): Map<number, { all: number[]; sending: Set<number> }> {
    const byKey = new Map<number, { all: number[]; sending: Set<number> }>();
    for (const [member, { isActive }] of this.byMember) {
      const key = this.keyOf(member);
      const known = byKey.get(key) ?? { all: [], sending: new Set() };
      byKey.set(key, known);
      known.all.push(member);
      if (isActive) known.sending.add(member);
    }
    return byKey;
  }

  /** What the device can issue, as the contexts report it; 0: unknown. */
  get requestsPerS(): number {
    let most = 0;
    for (const { requestsPerS } of this.byMember.values()) most = Math.max(most, requestsPerS);
    return most;
  }

  /** The application of a context: the same on all hosts if its tenant has a name. */
  keyOf(member: number): number {
    const { tenants } = this.members;
    tenants.group();
    const tenant = tenants.tenantOf(member);
    const id = tenant < 0 ? -1 : tenants.idOf(tenant);
    return id >= 0 ? id : tenantId(`${this.hostName} ${member}`);
  }

  /**
   * The applications in use, with the largest of their traffic.
   * @param peerOf the peer with a GID, reached from another
   */
  demands(peerOf: (gid: string, fromGid: string) => number): Demand[] {
    const byKey = new Map<number, Application>();
    for (const [member, { isActive, requests, peers }] of this.byMember) {
      if (!isActive) continue;
      const key = this.keyOf(member);
      const weight = Math.min(MOST_WEIGHT, this.weight.of(member));
      const known = byKey.get(key) ?? { key, weight, requests: 0, completions: new Map() };
      if (byKey.size === MOST_APPLICATIONS && !byKey.has(key)) continue;
      byKey.set(key, known);
      // The applications of a daemon have the weights of their tenants, all others those of their contexts.
      known.weight = Math.max(known.weight, weight);
      const counted = Math.max(1, requests);
      known.requests += counted;
      for (const { gid, fromGid, per } of peers) {
        const peer = peerOf(gid, fromGid);
        known.completions.set(peer, (known.completions.get(peer) ?? 0) + counted * per);
      }
    }
    return [...byKey.values()].filter(({ weight }) => weight > 0).map(demandOf);
  }
}

function demandOf({ key, weight, requests, completions }: Application): Demand {
  const parts = [...completions].map(([peer, count]): [number, number] => [
    peer,
    Math.min(1, count / requests),
  ]);
  const to = parts
    .filter(([peer, per]) => peer >= 0 && per >= LEAST_PER)
    .sort((a, b) => b[1] - a[1])
    .slice(0, MOST_DESTINATIONS);
  const own = parts.find(([peer]) => peer === OWN_HOST)?.[1] ?? 0;
  return { key, weight, own: 1 + own, to: new Map(to) };
}
