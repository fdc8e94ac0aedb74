/**
 * The agent of fair on one host and device. It divides links whose users do not see each other: hosts that send to the
 * same receiver share the link into it, and what they READ from a host leaves by the same link as what that host's own
 * tenants send. Each host reports to its peers what it sends to them and READs from them. The host whose link it is
 * answers with the level (level.ts), and both hosts keep their contexts to it:
 *
 *   sender     message   contents
 *   context    FLOWS     what it sends to each peer and READs from it, once a period, to the agent of its host
 *   host       DEMAND    the sums over its tenants, to each peer
 *   peer       LEVELS    what a unit of weight may use of the peer's link, in each direction
 *   host       LIMITS    the parts of its contexts
 *
 * The agent is idle while no context and no host reports anything.
 */
import type { Agent, AgentActions, AgentKind } from '../../../coordinator/agent.ts';
import type { MembersView } from '../../../coordinator/ruler.ts';
import { fairWindows } from '../options.ts';
import { HostFlows, type TenantLoad, type Way } from './host-flows.ts';
import { Level, levelOf } from './level.ts';
import {
  type Demand,
  type Limits,
  type Load,
  MOST_LIMITS,
  type PeerLimits,
  QUIET_WORDS,
  readDemand,
  readFlows,
  readLevels,
  writeDemand,
  writeLevels,
  writeLimits,
} from './messages.ts';
import { isNothing, Peer } from './peer.ts';

/** Reports that arrive within this time are decided on together. */
const GATHER_NS = 5e4;
/** The time between two decisions while reports arrive: in the process, and under a daemon. */
const PERIOD_NS = 2.5e5;
const REMOTE_PERIOD_NS = 1e7;
/** Reports to a peer that sets no limit are valid for this many times as long, and repeated as rarely. */
const FREE_PERIODS = 4;
/** A context that has no more to send may still send this many times as much, in case it soon has more. */
const GROWTH = 1.25;
/** The least relative change of a limit that is sent to contexts. */
const LEAST_CHANGE = 0.01;
const BITS_PER_BYTE = 8;

const DECIDE = 0;

/** Limits hold for so many periods, and are repeated after half of them. */
const LASTING_PERIODS = 8;

/** The limits that were last sent to a context, and when all of them were. */
interface Told {
  atNs: number;
  own: Limits;
  readonly peers: Map<string, PeerLimits>;
}

const NO_LIMITS: Limits = { outPerNs: 0, inPerNs: 0 };

/** What each tenant loads a link with. */
type Loads = ReadonlyMap<number, TenantLoad>;
/** The same by peer, in each direction. */
type LoadsByPeer = Readonly<Record<Way, ReadonlyMap<number, Loads>>>;
const NO_LOADS: Loads = new Map();

/** The agent of fair. */
export class FairAgent implements Agent {
  private members!: MembersView;
  private flows!: HostFlows;
  private readonly peers = new Map<number, Peer>();
  private readonly levels = { out: new Level(), in: new Level() };
  private readonly told = new Map<number, Told>();
  /** When the next decision is due; Infinity: none is planned. */
  private dueNs = Number.POSITIVE_INFINITY;

  onStart(out: AgentActions): void {
    this.members = out.members(fairWindows);
    this.flows = new HostFlows(this.members);
  }

  onTold(member: number, words: Float64Array, out: AgentActions): void {
    const report = readFlows(words);
    if (report === null) return;
    this.flows.set(member, report.flows, report.periodNs, out.nowNs, (gid, fromGid) =>
      out.gids.includes(gid) ? -1 : out.peerAt(gid, fromGid),
    );
    const isKnown = [...this.flows.of(member)].some(({ peer }) => peer >= 0);
    if (isKnown) this.plan(GATHER_NS, out);
    else if (!this.told.has(member)) out.tell(member, QUIET_WORDS);
  }

  onLeft(member: number): void {
    this.flows.remove(member);
    this.told.delete(member);
  }

  onPeer(number: number, change: 'up' | 'down', out: AgentActions): void {
    const peer = this.peers.get(number);
    if (change === 'up' || peer === undefined) return;
    peer.forget();
    this.plan(GATHER_NS, out);
  }

  forgetPeer(number: number): boolean {
    // What is reported of it names the number, which another peer may get.
    if (this.flows.names(number)) return false;
    this.peers.delete(number);
    return true;
  }

  onMessage(number: number, words: Float64Array, out: AgentActions): void {
    const demand = readDemand(words);
    const levels = demand === null ? readLevels(words) : null;
    if (demand === null && levels === null) return;
    const peer = this.peerOf(number);
    const isNews =
      demand !== null ? peer.asks(demand, out.nowNs) : peer.answers(levels!, this.periodNs, out.nowNs);
    if (isNews) this.plan(GATHER_NS, out);
  }

  onTimer(_token: number, out: AgentActions): void {
    this.dueNs = Number.POSITIVE_INFINITY;
    this.decide(out);
  }

  private get periodNs(): number {
    return this.members.isRemote ? REMOTE_PERIOD_NS : PERIOD_NS;
  }

  private peerOf(number: number): Peer {
    const known = this.peers.get(number) ?? new Peer();
    this.peers.set(number, known);
    return known;
  }

  private plan(inNs: number, out: AgentActions): void {
    const atNs = out.nowNs + inNs;
    if (atNs >= this.dueNs) return;
    this.dueNs = atNs;
    out.timer(atNs, DECIDE);
  }

  private decide(out: AgentActions): void {
    const { nowNs } = out;
    this.flows.expire(nowNs);
    for (const peer of this.peers.values()) peer.expire(nowNs);
    const capacityPerNs = this.members.linkGbps / BITS_PER_BYTE;
    if (capacityPerNs > 0)
      for (const way of ['out', 'in'] as const)
        this.levels[way].decide(this.sharers(way), capacityPerNs, nowNs);
    const byPeer = { out: this.flows.loadsByPeer('out'), in: this.flows.loadsByPeer('in') };
    this.limit(byPeer, out);
    for (const [number, peer] of this.peers) {
      const levels = {
        sentNs: nowNs,
        outPerNs: this.levels.in.perWeight,
        inPerNs: this.levels.out.perWeight,
      };
      if (peer.isAnswerDue(levels)) out.send(number, writeLevels(levels));
    }
    this.ask(byPeer, out);
    const isBusy = !this.flows.isEmpty || [...this.peers.values()].some(({ demand }) => demand !== null);
    if (isBusy) this.plan(this.periodNs, out);
  }

  /**
   * The loads of one direction of this host's link, by host or tenant. Empty if no other host uses it: the contexts of
   * one host share its link without the agent.
   */
  private sharers(way: Way): ReadonlyMap<string, Load> {
    const loads = new Map<string, Load>();
    for (const [number, { demand }] of this.peers) {
      // What peers READ goes out, and what they send comes in.
      const load = demand?.[way === 'out' ? 'in' : 'out'];
      if (load !== undefined && !isNothing(load)) loads.set(`host ${number}`, load);
    }
    if (loads.size === 0) return loads;
    for (const [tenant, { load }] of this.flows.loads(way)) loads.set(`tenant ${tenant}`, load);
    return loads;
  }

  /** Reports to each peer what the tenants of this host send to it and READ from it. */
  private ask(byPeer: LoadsByPeer, out: AgentActions): void {
    const numbers = new Set([...byPeer.out.keys(), ...byPeer.in.keys()]);
    for (const [number, peer] of this.peers) if (peer.hasAsked) numbers.add(number);
    for (const number of numbers) {
      if (number < 0) continue;
      const peer = this.peerOf(number);
      const demand: Demand = {
        sentNs: out.nowNs,
        periodNs: (peer.allowed === null ? FREE_PERIODS : 1) * this.periodNs,
        out: sum(byPeer.out.get(number) ?? NO_LOADS),
        in: sum(byPeer.in.get(number) ?? NO_LOADS),
      };
      if (peer.isDemandDue(demand)) out.send(number, writeDemand(demand));
    }
  }

  /** Sends contexts their limits. */
  private limit(byPeer: LoadsByPeer, out: AgentActions): void {
    const own = { out: this.flows.loads('out'), in: this.flows.loads('in') };
    const levels = { outPerNs: this.levels.out.perWeight, inPerNs: this.levels.in.perWeight };
    for (const member of new Set([...this.flows.reporters, ...this.told.keys()])) {
      const all = this.limitsOf(member, levels, own);
      const peers = new Map<string, PeerLimits>();
      for (const { gid, peer } of this.flows.of(member)) {
        const allowed = this.peers.get(peer)?.allowed;
        if (allowed === undefined || allowed === null) continue;
        const loads = { out: byPeer.out.get(peer) ?? NO_LOADS, in: byPeer.in.get(peer) ?? NO_LOADS };
        peers.set(gid, { gid, ...this.limitsOf(member, allowed, loads) });
      }
      this.tell(member, all, peers, out);
    }
  }

  /** The part that a context has of what its tenant may use, in both directions. */
  private limitsOf(
    member: number,
    { outPerNs, inPerNs }: Limits,
    loads: Readonly<Record<Way, Loads>>,
  ): Limits {
    const part = (way: Way, perWeight: number): number => {
      const ofTenant = loads[way].get(this.flows.tenantOf(member));
      if (perWeight === 0 || ofTenant === undefined) return 0;
      const needs = ofTenant.uses.map(({ isHungry, perNs }) => {
        return { weight: 1, perNs: isHungry ? Number.POSITIVE_INFINITY : GROWTH * perNs };
      });
      return levelOf(needs, perWeight * this.flows.weight(member));
    };
    return { outPerNs: part('out', outPerNs), inPerNs: part('in', inPerNs) };
  }

  private tell(member: number, own: Limits, peers: ReadonlyMap<string, PeerLimits>, out: AgentActions): void {
    const known = this.told.get(member) ?? { atNs: 0, own: NO_LIMITS, peers: new Map() };
    const lastsNs = LASTING_PERIODS * this.periodNs;
    const isOld = out.nowNs - known.atNs >= lastsNs / 2;
    const changed = [...peers.values()].filter(
      (one) => differ(one, known.peers.get(one.gid)) || (isOld && isLimited(one)),
    );
    for (const gid of known.peers.keys()) if (!peers.has(gid)) changed.push({ gid, ...NO_LIMITS });
    for (const one of changed) {
      if (isLimited(one)) known.peers.set(one.gid, one);
      else known.peers.delete(one.gid);
    }
    const isNew = differ(own, known.own) || (isOld && isLimited(own));
    if (isNew) known.own = own;
    this.told.set(member, known);
    if (isOld) known.atNs = out.nowNs;
    for (let at = 0; at < changed.length || (at === 0 && isNew); at += MOST_LIMITS)
      out.tell(member, writeLimits(lastsNs, known.own, changed.slice(at, at + MOST_LIMITS)));
    if (!isLimited(known.own) && known.peers.size === 0) this.told.delete(member);
  }
}

const isLimited = ({ outPerNs, inPerNs }: Limits): boolean => outPerNs + inPerNs > 0;

/** Whether limits have changed by more than LEAST_CHANGE. */
function differ(now: Limits, before: Limits = NO_LIMITS): boolean {
  const isNew = (a: number, b: number) => Math.abs(a - b) > LEAST_CHANGE * Math.max(a, b);
  return isNew(now.outPerNs, before.outPerNs) || isNew(now.inPerNs, before.inPerNs);
}

/** The sum of the loads of all tenants of a host. */
function sum(loads: Loads): Load {
  const all: Load = { weight: 0, hungryPerNs: 0, otherPerNs: 0 };
  for (const { load } of loads.values()) {
    all.weight += load.weight;
    all.hungryPerNs += load.hungryPerNs;
    all.otherPerNs += load.otherPerNs;
  }
  return all;
}

/** The agents of fair. */
export const fairAgents: AgentKind<FairAgent> = { name: 'fair', create: () => new FairAgent() };
