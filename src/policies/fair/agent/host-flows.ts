/** What the contexts of a host send to its peers and READ from them, summed by tenant and by peer. */
import { TENANT } from '../../../coordinator/member-table.ts';
import type { MembersView, ReportColumn } from '../../../coordinator/ruler.ts';
import type { Flow, Load, Use } from './messages.ts';

/** The most flows that are kept of one context. */
const MOST_FLOWS_OF_MEMBER = 256;
/** A report is valid until so many more are overdue. */
const OVERDUE_PERIODS = 4;
/** The least rate that counts, in bytes per nanosecond. */
const LEAST_PER_NS = 1e-9;

/** A flow, and the number of the peer; -1: no agent is known there. */
export interface HostFlow extends Flow {
  readonly peer: number;
  readonly endsNs: number;
}

/** One of the two directions of a link. */
export type Way = 'out' | 'in';

/** What one tenant loads one direction of the link with, in total or at one peer. */
export interface TenantLoad {
  readonly load: Load;
  /** What each of its contexts sends or READs. */
  readonly uses: Use[];
}

const newLoad = (): TenantLoad => ({ load: { weight: 0, hungryPerNs: 0, otherPerNs: 0 }, uses: [] });

/** The flows of a host. */
export class HostFlows {
  private readonly members: MembersView;
  private readonly weightOf: ReportColumn;
  private readonly byMember = new Map<number, Map<string, HostFlow>>();

  constructor(members: MembersView) {
    this.members = members;
    this.weightOf = members.report('weight', TENANT);
  }

  get isEmpty(): boolean {
    return this.byMember.size === 0;
  }

  /** The contexts that have flows. */
  get reporters(): IterableIterator<number> {
    return this.byMember.keys();
  }

  /** A context reports some of its flows. @param peerOf returns the number of a flow's peer */
  set(member: number, flows: readonly Flow[], periodNs: number, nowNs: number, peerOf: PeerOf): void {
    const known = this.byMember.get(member) ?? new Map<string, HostFlow>();
    const endsNs = nowNs + OVERDUE_PERIODS * periodNs;
    for (const flow of flows) {
      const key = `${flow.gid} ${flow.fromGid}`;
      known.delete(key);
      const isOver = flow.out.perNs + flow.in.perNs < LEAST_PER_NS && !flow.out.isHungry && !flow.in.isHungry;
      if (isOver || known.size >= MOST_FLOWS_OF_MEMBER) continue;
      known.set(key, { ...flow, peer: peerOf(flow.gid, flow.fromGid), endsNs });
    }
    this.keep(member, known);
  }

  private keep(member: number, flows: Map<string, HostFlow>): void {
    if (flows.size > 0) this.byMember.set(member, flows);
    else this.byMember.delete(member);
  }

  /** A context has left. */
  remove(member: number): void {
    this.byMember.delete(member);
  }

  /** Forgets flows that have not been reported for some time. */
  expire(nowNs: number): void {
    for (const [member, flows] of this.byMember) {
      for (const [key, { endsNs }] of flows) if (nowNs > endsNs) flows.delete(key);
      this.keep(member, flows);
    }
  }

  /** The flows of a context. */
  of(member: number): Iterable<HostFlow> {
    return this.byMember.get(member)?.values() ?? [];
  }

  /** Whether a flow has this peer. */
  names(peer: number): boolean {
    for (const flows of this.byMember.values())
      for (const flow of flows.values()) if (flow.peer === peer) return true;
    return false;
  }

  /** The number of the tenant of a context, valid until contexts join or leave. */
  tenantOf(member: number): number {
    return this.members.tenants.tenantOf(member);
  }

  /** The weight of the tenant of a context. */
  weight(member: number): number {
    const { tenants } = this.members;
    const tenant = tenants.tenantOf(member);
    return tenant < 0 ? 0 : this.weightOf.of(tenants.memberAt(tenants.firstOf(tenant)));
  }

  /** What each tenant loads one direction of the link with. */
  loads(way: Way): Map<number, TenantLoad> {
    this.members.tenants.group();
    const loads = new Map<number, TenantLoad>();
    for (const [member, flows] of this.byMember) this.count(loads, member, useOf(flows.values(), way));
    return loads;
  }

  /** The same by peer: only the traffic with that peer. */
  loadsByPeer(way: Way): Map<number, Map<number, TenantLoad>> {
    this.members.tenants.group();
    const byPeer = new Map<number, Map<number, TenantLoad>>();
    for (const [member, flows] of this.byMember) {
      for (const [peer, use] of usesByPeer(flows.values(), way)) {
        const loads = byPeer.get(peer) ?? new Map<number, TenantLoad>();
        byPeer.set(peer, loads);
        this.count(loads, member, use);
      }
    }
    return byPeer;
  }

  private count(loads: Map<number, TenantLoad>, member: number, use: Use): void {
    const tenant = this.tenantOf(member);
    if (tenant < 0 || (use.perNs < LEAST_PER_NS && !use.isHungry)) return;
    const known = loads.get(tenant) ?? newLoad();
    loads.set(tenant, known);
    this.add(known, use, member);
  }

  private add(to: TenantLoad, use: Use, member: number): void {
    const { perNs, isHungry } = use;
    to.uses.push(use);
    if (!isHungry) {
      to.load.otherPerNs += perNs;
      return;
    }
    to.load.hungryPerNs += perNs;
    to.load.weight = this.weight(member);
  }
}

/** The number of the peer with this GID. */
export type PeerOf = (gid: string, fromGid: string) => number;

/**
 * What a context loads one direction of the link with. The requests of its READs go out, too: if they are most of what
 * it sends, it has more to send while it has more to READ.
 */
function useOf(flows: Iterable<HostFlow>, way: Way): Use {
  let [perNs, requestsPerNs] = [0, 0];
  let [isHungry, isReading] = [false, false];
  for (const flow of flows) {
    perNs += flow[way].perNs;
    isHungry ||= flow[way].isHungry;
    requestsPerNs += flow.requestsPerNs;
    isReading ||= flow.in.isHungry;
  }
  if (way === 'in') return { perNs, isHungry };
  const isMost = isReading && requestsPerNs > perNs;
  return { perNs: perNs + requestsPerNs, isHungry: isHungry || isMost };
}

/** What a context sends to each peer, or READs from it. */
function usesByPeer(flows: Iterable<HostFlow>, way: Way): Map<number, Use> {
  const uses = new Map<number, Use>();
  for (const { peer, [way]: use } of flows) {
    const known = uses.get(peer);
    uses.set(
      peer,
      known === undefined
        ? use
        : { perNs: known.perNs + use.perNs, isHungry: known.isHungry || use.isHungry },
    );
  }
  return uses;
}
