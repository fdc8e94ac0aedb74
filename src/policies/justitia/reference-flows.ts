/**
 * The agent of justitia at one host and device. It sends a reference flow to each host with which latency applications
 * communicate, and estimates the tail of the latencies. It also exchanges updates with the agents of other hosts: what
 * its members send to a receiver, and what a receiver allows (sections 4.3.2 and 4.5 of the paper).
 */
import type { Agent, AgentActions, AgentKind } from '../../coordinator/agent.ts';
import type { GrantColumn, MembersView } from '../../coordinator/ruler.ts';
import { tenantId } from '../../coordinator/tenants.ts';
import { gidFromWords } from '../../verbs/gid.ts';
import { TailEstimator } from '../kit/tail-estimator.ts';
import { MAX_WEIGHT, WORST_GID_COLUMNS } from './columns.ts';
import { FLOW_WORDS, Flows } from './flows.ts';
import { MemberWeights } from './member-weights.ts';
import { allowsOf, type Flow, heardOf, isActive, newPeer, noUpdate, type Peer } from './peer.ts';
import { ProbeRate } from './probe-rate.ts';
import { REFERENCE_BYTES, rates } from './rates.ts';
import { receiverPart, shareOf } from './receiver-parts.ts';
import { DEMAND, numberAfter, readUpdate, renew, SHARES, UPDATE_WORDS, writeUpdate } from './updates.ts';

/** The part by which the time between two messages varies, so that they do not fall into step with other traffic. */
const JITTER = 0.25;
/**
 * If a message takes longer than this part of the time between two messages, they are sent less often, because a
 * reference flow must not delay other traffic (not with `paper`).
 */
const BUSY_PART = 1 / 8;
/**
 * The most RefPeriods between two messages. One message that waited for long must not silence the flow for long, and at
 * this interval a flow does not delay other traffic.
 */
const MAX_GAP_PERIODS = 50;
/** The part of messages whose latency may be above the target. */
const LATE_PART = 0.01;
/** The rate of these messages is measured over this many RefPeriods. */
const RATE_PERIODS = 50;
/** The words that stand for no GID. */
const NO_GID = [0, 0, 0, 0];
/** Updates are repeated at this interval, then at ever longer ones. */
const RETRY_NS = 1e6;
const MAX_RETRY_NS = 1e8;
/**
 * In a daemon with more flows than this, they are added up only now and then, and peers without a known agent are looked
 * for less often: so many nanoseconds for each flow. Otherwise, a program could keep the daemon busy.
 */
const FLOWS_AT_ONCE = 256;
const SUM_NS_PER_FLOW = 1000;
const RETRY_NS_PER_FLOW = 10_000;
/** Timer tokens for repeated updates and sums. Those from FIRST_PROBE on belong to the peers' reference flows. */
const RETRY = 0;
const SUM = 1;
const FIRST_PROBE = 2;

/** The agent of justitia: its reference flows, and the updates of receivers. */
export class ReferenceFlows implements Agent {
  private readonly flows = new Flows();
  private readonly peers: (Peer | undefined)[] = [];
  private members!: MembersView;
  private weights!: MemberWeights;
  private readonly columns = new Map<string, GrantColumn>();
  /** The weight with which a peer counts at most. */
  private mostWeight = Number.POSITIVE_INFINITY;
  private readonly update = noUpdate(0);
  private readonly words = new Float64Array(UPDATE_WORDS);
  private retryNs = RETRY_NS;
  private isRetrying = false;
  /** Whether updates are being repeated, which must not shorten the time until the next repeat. */
  private isRepeating = false;
  private isDeciding = false;
  /** When flows were last added up, and whether that is planned. */
  private summedNs = 0;
  private isSumPlanned = false;
  /** The state of the random numbers for the jitter; null: the seed is not known yet. */
  private random: number | null = null;
  private falls = 0;
  private readonly rate = new ProbeRate();

  onStart(out: AgentActions): void {
    this.members = out.members(rates);
    this.weights = new MemberWeights(this.members);
    for (const { name } of rates.grants) this.columns.set(name, this.members.grant(name));
  }

  private read(column: string): number {
    return this.columns.get(column)!.of(this.members.device);
  }

  private write(column: string, value: number): boolean {
    return this.columns.get(column)!.set(this.members.device, value);
  }

  /** A member reports what it does at a peer. */
  onTold(member: number, words: Float64Array, out: AgentActions): void {
    if (words.length !== FLOW_WORDS) return;
    const [gid, fromGid] = [gidFromWords(words, 0), gidFromWords(words, 4)];
    const [, , , , , , , , sends, reads, hasLatency] = words;
    if (gid === null || fromGid === null || !(sends >= 0 && reads >= 0)) return;
    const flow =
      this.flows.find(member, gid) ?? this.flows.add(member, { gid, fromGid, words }, this.members);
    if (flow === null) return;
    [flow.sends, flow.reads] = [Math.min(MAX_WEIGHT, sends), Math.min(MAX_WEIGHT, reads)];
    flow.hasLatency = hasLatency === 1;
    if (sends === 0 && reads === 0 && !flow.hasLatency) this.flows.remove(member, gid);
    else if (flow.peer < 0) this.find(flow, out);
    const peer = this.peers[flow.peer];
    if (reads > 0 && peer !== undefined && peer.allows.number > 0) this.tellReads(member, flow, peer, out);
    this.sumSoon(out);
  }

  onLeft(member: number, out: AgentActions): void {
    if (this.flows.removeAll(member)) this.sumSoon(out);
  }

  onMembers(out: AgentActions): void {
    if (!this.isDeciding) this.sumSoon(out);
  }

  /** Looks for the agent of a flow's peer. */
  private find(flow: Flow, out: AgentActions): void {
    if (out.gids.includes(flow.gid)) return;
    flow.peer = out.peerAt(flow.gid, flow.fromGid);
    if (flow.peer >= 0) this.peerOf(flow.peer, out);
    else this.retrySoon(out);
  }

  private peerOf(number: number, out: AgentActions): Peer {
    const known = this.peers[number];
    if (known !== undefined) return known;
    const peer = newPeer(out.gidOf(number));
    this.peers[number] = peer;
    return peer;
  }

  /** Adds up what members do, at once or, if there are many flows, a little later. */
  private sumSoon(out: AgentActions): void {
    const { count } = this.flows;
    if (count <= FLOWS_AT_ONCE || !this.members.isRemote) this.sum(out);
    else if (!this.isSumPlanned) {
      this.isSumPlanned = true;
      out.timer(Math.max(out.nowNs, this.summedNs + SUM_NS_PER_FLOW * count), SUM);
    }
  }

  /** Adds up what members do, and reports changes to the peers and to the ruler. */
  private sum(out: AgentActions): void {
    const { weights } = this;
    this.summedNs = out.nowNs;
    weights.isByContext = this.read('sharesByContext') === 1;
    let own = 0;
    for (const member of this.flows.byMember.keys()) own += weights.hungryOf(member);
    this.mostWeight = Math.max(own, this.read('maxPeerWeight'));
    for (const peer of this.peers) if (peer) [peer.sends, peer.reads, peer.latency] = [0, 0, 0];
    for (const [member, flows] of this.flows.byMember) {
      for (const { peer: number, sends, reads, hasLatency } of flows.values()) {
        const peer = this.peers[number];
        if (peer === undefined) continue;
        peer.sends += weights.held(member, sends);
        peer.reads += weights.held(member, reads);
        // The member's page may be read later than its words.
        if (hasLatency) peer.latency = this.addLatency(peer.latency, weights.latencyOf(member) || 1);
      }
    }
    this.peers.forEach((peer, number) => {
      if (peer === undefined) return;
      const { sent } = peer;
      if (renew(sent, peer.latency, peer.sends, peer.reads)) this.send(number, peer, DEMAND, out);
      this.keepFlow(number, peer, out);
      this.keepWatch(number, peer, out);
    });
    this.allow(out);
    this.decide(out);
  }

  /** The weight of some latency applications, and of others of this weight. */
  private addLatency(sum: number, weight: number): number {
    if (this.read('countsLatencyOnce') === 1) return Math.max(sum, weight > 0 ? 1 : 0);
    return sum + weight;
  }

  /**
   * The weight with which a peer counts that claims one. A peer could claim any, so it gets no more than `maxPeerWeight`,
   * or than all members of this host together.
   */
  private counted(claimed: number): number {
    return Math.min(claimed, this.mostWeight);
  }

  /** Grants each unit of weight a share, and sends it to the peers that send to this host or READ from it. */
  private allow(out: AgentActions): void {
    let [received, reads, remote] = [0, 0, 0];
    for (const peer of this.peers) {
      if (peer === undefined) continue;
      const heard = heardOf(peer);
      received += this.counted(heard.first);
      reads += this.counted(heard.second);
      remote = this.addLatency(remote, this.counted(heard.latency));
    }
    const local = this.localDemand();
    const latency = Math.max(remote, local.latency);
    const incoming = Math.max(1, received + remote);
    const outgoing = Math.max(1, local.sends + reads + latency);
    this.peers.forEach((peer, number) => {
      // A new number for a peer that the shares do not concern would leave that peer's own update unconfirmed.
      if (peer === undefined || !isActive(peer)) return;
      const { first, second } = heardOf(peer);
      // For a peer that claims more than it counts, a unit of its weight is worth less.
      const one = first > 0 ? this.counted(first) / first / incoming : 1 / incoming;
      const other = second > 0 ? this.counted(second) / second / outgoing : 1 / outgoing;
      if (renew(peer.allowed, latency > 0 ? 1 : 0, one, other)) this.send(number, peer, SHARES, out);
    });
  }

  /** The total weight with which this device's members send, and the weight of the latency applications among them. */
  private localDemand(): { sends: number; latency: number } {
    const { weights } = this;
    let [sends, latency] = [0, 0];
    for (const [member, flows] of this.flows.byMember) {
      let most = 0;
      for (const flow of flows.values()) most = Math.max(most, weights.held(member, flow.sends));
      sends += most;
      latency = this.addLatency(latency, weights.latencyOf(member));
    }
    return { sends, latency };
  }

  /** Lets the ruler decide if the peers' reports have changed. */
  private decide(out: AgentActions): void {
    let [readWeight, remoteLatency, isBeside] = [0, 0, 0];
    for (const peer of this.peers) {
      if (peer === undefined) continue;
      const heard = heardOf(peer);
      readWeight += this.counted(heard.second);
      remoteLatency = this.addLatency(remoteLatency, this.counted(heard.latency));
      if (allowsOf(peer).latency > 0 && peer.sends > 0) isBeside = 1;
    }
    remoteLatency = Math.max(remoteLatency, isBeside);
    let hasNews = this.write('readWeight', readWeight);
    if (this.write('remoteLatency', remoteLatency)) hasNews = true;
    const column = this.columns.get('receiverPart')!;
    const part = receiverPart(this.allowances(readWeight, remoteLatency), (member, itsPart) => {
      if (column.set(member, itsPart)) hasNews = true;
    });
    if (this.write('receiverPart', part)) hasNews = true;
    if (hasNews) this.decideNow(out, true);
  }

  private allowances(readWeight: number, remoteLatency: number) {
    const { members, weights, flows, peers } = this;
    return {
      ...{ members, weights, readWeight, remoteLatency },
      countsLatencyOnce: this.read('countsLatencyOnce') === 1,
      flowsOf: (member: number) => flows.byMember.get(member)?.values() ?? [],
      allowedBy: (number: number) => {
        const peer = peers[number];
        return peer === undefined ? 0 : allowsOf(peer).first;
      },
    };
  }

  private decideNow(out: AgentActions, isNews: boolean): void {
    this.isDeciding = true;
    try {
      out.decide(rates, isNews);
    } finally {
      this.isDeciding = false;
    }
    const falls = this.read('falls');
    if (falls === this.falls) return;
    this.falls = falls;
    for (const peer of this.peers) if (peer) this.restart(peer);
  }

  /** Begins a new window. */
  private restart(peer: Peer): void {
    peer.tail?.clear();
    peer.late = 0;
  }

  /** Begins or ends the reference flow to a peer. */
  private keepFlow(number: number, peer: Peer, out: AgentActions): void {
    const isBeside = allowsOf(peer).latency > 0 && peer.sends > 0;
    const isNeeded = !peer.isSilent && (peer.latency > 0 || peer.heard.latency > 0 || isBeside);
    // Probes of a peer that is down would look like a path that is too slow.
    const isWanted = isNeeded && peer.isUp;
    if (isWanted === (peer.tail !== null)) return;
    if (isWanted) {
      const windowSamples = this.read('refCount');
      // The ruler has not decided yet, so the rules are unknown. The flow begins with its first decision.
      if (windowSamples === 0) return;
      peer.tail = new TailEstimator({ windowSamples });
      peer.late = 0;
      this.planProbe(number, out);
      return;
    }
    peer.tail = null;
    if (!this.peers.some((one) => one?.tail)) this.rate.clear();
    this.estimate();
  }

  /** Watches a peer while what it has said counts. */
  private keepWatch(number: number, peer: Peer, out: AgentActions): void {
    const { heard, sends, reads, latency } = peer;
    const matters = heard.first + heard.second + heard.latency + sends + reads + latency > 0;
    if (matters === peer.isWatched) return;
    peer.isWatched = matters;
    if (!matters) peer.isSilent = false;
    out.watch(number, matters);
  }

  onSilent(number: number, isSilent: boolean, out: AgentActions): void {
    const peer = this.peerOf(number, out);
    if (peer.isSilent === isSilent) return;
    peer.isSilent = isSilent;
    this.sumSoon(out);
    this.tellAllReads(number, peer, out);
  }

  private planProbe(number: number, out: AgentActions): void {
    const periodNs = this.read('refPeriodNs');
    const before = this.random ?? (tenantId(out.gids[0] ?? '') % 2 ** 31) ^ this.read('seed');
    const random = (Math.imul(before, 1664525) + 1013904223) | 0;
    this.random = random;
    const jitter = 1 + JITTER * (2 * ((random >>> 8) / 2 ** 24) - 1);
    const slowNs = this.read('refLeast') > 1 ? (this.peers[number]?.lastNs ?? 0) / BUSY_PART : 0;
    const gapNs = Math.min(Math.max(periodNs, slowNs), MAX_GAP_PERIODS * periodNs);
    out.timer(out.nowNs + jitter * gapNs, FIRST_PROBE + number);
  }

  onTimer(token: number, out: AgentActions): void {
    if (token === SUM) this.isSumPlanned = false;
    if (token < FIRST_PROBE) {
      if (token === RETRY) this.retry(out);
      else this.sum(out);
      return;
    }
    const number = token - FIRST_PROBE;
    if (!this.peers[number]?.tail) return;
    out.probe(number, REFERENCE_BYTES);
    this.planProbe(number, out);
  }

  onProbe(number: number, latencyNs: number, out: AgentActions): void {
    const peer = this.peers[number];
    if (!peer?.tail) return;
    peer.tail.add(latencyNs);
    if (latencyNs > 0) peer.lastNs = latencyNs;
    this.write('probes', this.read('probes') + 1);
    this.rate.add(out.nowNs, RATE_PERIODS * this.read('refPeriodNs'));
    // A lost message took too long.
    if (!(latencyNs <= this.read('targetNs'))) peer.late++;
    this.estimate();
    this.decideNow(out, false);
  }

  /**
   * Publishes the tail of the worst receiver among those with enough samples. If more than 1 % of the required samples
   * are already too long, the tail is too long whatever follows, so it is published at once.
   */
  private estimate(): void {
    const least = this.read('refLeast');
    let [worst, worstNs] = [-1, 0];
    for (let number = 0; number < this.peers.length; number++) {
      const peer = this.peers[number];
      if (!peer?.tail || (peer.tail.count < least && peer.late <= LATE_PART * least)) continue;
      const ns = peer.tail.valueNs();
      if (ns > worstNs) [worst, worstNs] = [number, ns];
    }
    this.write('estimateNs', worstNs);
    this.write('probesPerS', this.rate.perS);
    const words = this.peers[worst]?.gidWords ?? NO_GID;
    for (let i = 0; i < words.length; i++) this.write(WORST_GID_COLUMNS[i], words[i]);
  }

  onPeer(number: number, change: 'up' | 'down', out: AgentActions): void {
    const peer = this.peerOf(number, out);
    peer.isUp = change === 'up';
    peer.isSilent = false;
    if (!peer.isUp) {
      // When the peer comes back, it may be a new agent. Until then, this host relies on its own rule.
      Object.assign(peer.heard, noUpdate(DEMAND));
      Object.assign(peer.allows, noUpdate(SHARES));
      [peer.sent.confirmed, peer.allowed.confirmed] = [0, 0];
      this.tellAllReads(number, peer, out);
      this.retrySoon(out);
    } else {
      const wasAllowed = peer.allowed.number > 0;
      [peer.sent.number, peer.allowed.number] = [
        numberAfter(peer.sent.number),
        numberAfter(peer.allowed.number),
      ];
      this.send(number, peer, DEMAND, out);
      // The peer may not have noticed that it was down here. It repeats its demand if it finds it unconfirmed.
      if (wasAllowed) this.send(number, peer, SHARES, out);
    }
    this.sumSoon(out);
  }

  forgetPeer(number: number): boolean {
    for (const flows of this.flows.byMember.values())
      for (const { peer } of flows.values()) if (peer === number) return false;
    delete this.peers[number];
    return true;
  }

  onMessage(number: number, words: Float64Array, out: AgentActions): void {
    const { update } = this;
    if (!readUpdate(words, update)) return;
    const peer = this.peerOf(number, out);
    const [known, own] = update.kind === DEMAND ? [peer.heard, peer.allowed] : [peer.allows, peer.sent];
    if (update.confirmed === own.number) own.confirmed = own.number;
    if (update.number === known.number) {
      // The peer repeats its update because the answer was lost.
      if (update.confirmed !== own.number) this.send(number, peer, own.kind, out);
      return;
    }
    const before = own.number;
    Object.assign(known, update);
    if (update.kind === SHARES) {
      known.first = shareOf(known.first);
      known.second = shareOf(known.second);
      this.tellAllReads(number, peer, out);
    }
    this.keepFlow(number, peer, out);
    this.sumSoon(out);
    // An update that changes nothing here must be confirmed, too.
    if (own.number === before) this.send(number, peer, own.kind, out);
  }

  /** Sends an update to a peer, with the number of the last update that arrived from it. */
  private send(number: number, peer: Peer, kind: number, out: AgentActions): void {
    const [own, other] = kind === DEMAND ? [peer.sent, peer.allows] : [peer.allowed, peer.heard];
    if (own.number === 0) own.number = 1;
    writeUpdate(this.words, { ...own, confirmed: other.number });
    out.send(number, this.words);
    if (own.confirmed !== own.number && !this.isRepeating) this.retrySoon(out);
  }

  private retrySoon(out: AgentActions): void {
    if (this.isRetrying && this.retryNs === RETRY_NS) return;
    this.isRetrying = true;
    this.retryNs = RETRY_NS;
    this.planRetry(out);
  }

  /** Repeats updates that are not confirmed, and looks again for peers without a known agent. */
  private retry(out: AgentActions): void {
    let isOpen = false;
    this.isRepeating = true;
    for (const flows of this.flows.byMember.values()) {
      for (const flow of flows.values()) {
        if (this.peers[flow.peer]?.isUp || out.gids.includes(flow.gid)) continue;
        // The agent of a host that has restarted has another address.
        flow.peer = out.peerAt(flow.gid, flow.fromGid);
        isOpen = true;
        if (flow.peer >= 0) this.peerOf(flow.peer, out);
      }
    }
    this.sum(out);
    this.peers.forEach((peer, number) => {
      if (!peer?.isUp) return;
      for (const own of [peer.sent, peer.allowed]) {
        if (own.number === 0 || own.confirmed === own.number) continue;
        if (own.kind === SHARES && !isActive(peer)) continue;
        isOpen = true;
        this.send(number, peer, own.kind, out);
      }
    });
    this.isRepeating = false;
    this.isRetrying = isOpen;
    this.retryNs = Math.min(2 * this.retryNs, MAX_RETRY_NS);
    if (isOpen) this.planRetry(out);
  }

  private planRetry(out: AgentActions): void {
    const { count } = this.flows;
    const lookUpNs = count > FLOWS_AT_ONCE && this.members.isRemote ? RETRY_NS_PER_FLOW * count : 0;
    out.timer(out.nowNs + Math.max(this.retryNs, lookUpNs), RETRY);
  }

  private tellAllReads(number: number, peer: Peer, out: AgentActions): void {
    for (const [member, flows] of this.flows.byMember) {
      for (const flow of flows.values())
        if (flow.peer === number && flow.reads > 0) this.tellReads(member, flow, peer, out);
    }
  }

  /** Sends a member the rate in Gbit/s at which a unit of its weight may READ from a peer; 0 if it is unknown. */
  private tellReads(member: number, { words }: Flow, peer: Peer, out: AgentActions): void {
    const allows = allowsOf(peer);
    // The peer's link is assumed to be as fast as this device's.
    out.tell(member, [...words, allows.number > 0 ? allows.second * this.read('maxGbps') : 0]);
  }
}

/** The agents of justitia. */
export const referenceFlows: AgentKind<ReferenceFlows> = {
  name: 'justitia',
  create: () => new ReferenceFlows(),
};
