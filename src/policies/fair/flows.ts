/**
 * What the contexts of a device in this process send to each peer and READ from it. They report this to the agent of
 * their host (agent/fair-agent.ts) once a period, and get limits in return. While no peer has an agent, they report
 * nothing.
 */
import type { AgentLine } from '../../coordinator/agent.ts';
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import { SEEN } from '../../shim/counters.ts';
import type { ContextView, QpView } from '../../shim/policy.ts';
import { gidFromWords, gidToWords } from '../../verbs/gid.ts';
import { fairAgents } from './agent/fair-agent.ts';
import { type Flow, isQuiet, MOST_FLOWS, readLimits, writeFlows } from './agent/messages.ts';
import { FlowLimits, type Limit, type QpLimits } from './flow-limits.ts';

/** The time between two samples: the longest of this, this many intervals of the line, and so much per queue pair. */
const PERIOD_NS = 2.5e5;
const PERIOD_INTERVALS = 2;
const PERIOD_NS_PER_QP = 1000;
/** The time until the next search for agents of peers. It doubles, up to a maximum, each time that there is none. */
const QUIET_NS = 1e6;
const MOST_QUIET_NS = 2.56e8;
/** A flow that does not wait is reported if it uses at least this part of the link. */
const LEAST_PART = 1 / 64;
/**
 * The weight of a sample in the average rates. Single samples are uneven, because long pieces take longer than the time
 * between two samples. The first samples of a flow have equal weights.
 */
const SAMPLE_WEIGHT = 1 / 4;
/** Stands for the peers of datagrams. */
const NO_PEER = '::';
/** What an agent has told holds for at least so many samples. */
const LASTING_PERIODS = 8;
/** After so many samples in which nothing was sent, no more are taken. */
const IDLE_SAMPLES = 16;

/** What the scheduler knows of the link and of its queue pairs. */
export interface FlowFacts {
  /** The rate of the link, in bytes on the wire. */
  readonly linkPerNs: number;
  /** The request of a READ, and the shortest response, in bytes on the wire. */
  readonly requestBytes: number;
  readonly responseBytes: number;
  /** Bytes on the wire that a queue pair has sent, or READ, in total. */
  sentBytes(qp: QpView, isRead: boolean): number;
  /** Whether a queue pair waits for the window in a direction. */
  waits(qp: QpView, isRead: boolean): boolean;
}

/** What a queue pair or a flow has sent, READ and requested, and whether more waits. */
class Sums {
  out = 0;
  in = 0;
  requests = 0;
  /** Queue pairs that take part. */
  outQps = 0;
  inQps = 0;
  outWaits = false;
  inWaits = false;

  clear(): void {
    this.out = this.in = this.requests = this.outQps = this.inQps = 0;
    this.outWaits = this.inWaits = false;
  }
}

/** A queue pair, and its totals at the last sample. */
interface Counted {
  readonly qp: QpView;
  readonly member: Member;
  readonly flow: PeerFlow | null;
  readonly dgid: string;
  readonly sgid: string;
  readonly before: Sums;
}

/** What a context sends to one peer, and READs from it. */
interface PeerFlow {
  readonly gid: string;
  readonly fromGid: string;
  readonly limits: QpLimits & { readonly peerOut: Limit; readonly peerIn: Limit };
  qps: number;
  /** Since the last sample, and on average per nanosecond. */
  readonly sums: Sums;
  readonly perNs: Sums;
  samples: number;
  isReported: boolean;
}

/** A context. */
interface Member {
  readonly context: ContextView;
  readonly limits: QpLimits;
  /** By both GIDs. */
  readonly flows: Map<string, PeerFlow>;
  /** What is sent to peers that the queue pairs do not name: datagrams. */
  readonly datagrams: PeerFlow;
  line: AgentLine | null;
  hasLine: boolean;
  quietNs: number;
  /** Nothing is reported before this time. */
  quietUntilNs: number;
  /** When the limits of the agent end, unless it repeats them. */
  toldUntilNs: number;
}

/** The flows of one device in this process. */
export class Flows {
  readonly limits: FlowLimits;
  private readonly registry: CoordinatorRegistry;
  private readonly facts: FlowFacts;
  private readonly members = new Map<number, Member>();
  private readonly counted = new Map<number, Counted>();
  private lastNs = 0;
  /** Whether the next sample is only a baseline for later ones. */
  private isFirst = true;
  /** Samples in a row in which nothing was sent. */
  private idleSamples = 0;
  /** Messages to agents in the last sample. */
  private messages = 0;
  /** New rates of limits, in bytes on the wire per nanosecond, which `apply` puts into effect. */
  private readonly pending: { limit: Limit; perNs: number }[] = [];

  constructor(registry: CoordinatorRegistry, facts: FlowFacts) {
    this.registry = registry;
    this.facts = facts;
    this.limits = new FlowLimits(facts.requestBytes);
  }

  /** A queue pair was created, or its peer has become known. */
  add(qp: QpView): void {
    const { context, dgid, sgid, index } = qp;
    const known = this.counted.get(index);
    // Its limits stay in force.
    if (known?.qp === qp && known.dgid === dgid && known.sgid === sgid) return;
    this.drop(qp);
    const member = this.memberOf(context);
    // Agents of other hosts find the agent of this host by its GIDs.
    if (sgid !== '') this.registry.registerGid(context.device, sgid);
    // The loopback is no part of the link.
    const isAway = dgid === '' || dgid !== sgid;
    const flow = isAway ? this.flowOf(member, dgid, sgid) : null;
    if (flow !== null) flow.qps++;
    const before = new Sums();
    this.read(qp, before);
    this.counted.set(index, { qp, member, flow, dgid, sgid, before });
    if (flow !== null) this.limits.assign(qp, flow.limits);
  }

  /** A queue pair was destroyed, or has another peer from now on. */
  drop({ index }: { readonly index: number }): void {
    const counted = this.counted.get(index);
    if (counted === undefined) return;
    this.counted.delete(index);
    this.limits.remove(index);
    const { member, flow } = counted;
    if (flow === null || --flow.qps > 0 || flow === member.datagrams) return;
    member.flows.delete(keyOf(flow.gid, flow.fromGid));
    this.dropLimits(flow.limits);
  }

  private dropLimits({ peerOut, peerIn }: PeerFlow['limits']): void {
    this.limits.drop(peerOut);
    this.limits.drop(peerIn);
  }

  private memberOf(context: ContextView): Member {
    const known = this.members.get(context.index);
    if (known?.context === context) return known;
    // A context that was closed had the same number.
    if (known !== undefined) this.forget(known);
    const { limits } = this;
    const own = { out: limits.create(), in: limits.create(), peerOut: null, peerIn: null };
    const member: Member = {
      ...{ context, limits: own, flows: new Map(), line: null, hasLine: false },
      ...{ datagrams: this.createFlow(own, NO_PEER, NO_PEER) },
      ...{ quietNs: QUIET_NS, quietUntilNs: 0, toldUntilNs: Number.POSITIVE_INFINITY },
    };
    this.members.set(context.index, member);
    return member;
  }

  private flowOf(member: Member, dgid: string, sgid: string): PeerFlow {
    if (dgid === '' || sgid === '') return member.datagrams;
    // In the form in which agents write GIDs.
    const [gid, fromGid] = [dgid, sgid].map((one) => gidFromWords(gidToWords(one), 0)!);
    const key = keyOf(gid, fromGid);
    const flow = member.flows.get(key) ?? this.createFlow(member.limits, gid, fromGid);
    member.flows.set(key, flow);
    return flow;
  }

  private createFlow(own: QpLimits, gid: string, fromGid: string): PeerFlow {
    const limits = { ...own, peerOut: this.limits.create(), peerIn: this.limits.create() };
    const sums = { sums: new Sums(), perNs: new Sums() };
    return { gid, fromGid, limits, qps: 0, ...sums, samples: 0, isReported: false };
  }

  /** Forgets contexts that were closed, which have no queue pairs. */
  private prune(): void {
    for (const member of this.members.values()) if (!this.registry.has(member.context)) this.forget(member);
  }

  private forget({ context, limits, flows, datagrams }: Member): void {
    this.members.delete(context.index);
    for (const flow of [...flows.values(), datagrams]) this.dropLimits(flow.limits);
    this.limits.drop(limits.out);
    this.limits.drop(limits.in);
  }

  private read(qp: QpView, into: Sums): void {
    const { facts } = this;
    into.out = facts.sentBytes(qp, false);
    into.in = facts.sentBytes(qp, true);
    into.requests = qp.counts[SEEN];
  }

  /** Something is sent after a time without samples. Returns when to take the first sample. */
  begin(nowNs: number): number {
    this.isFirst = true;
    this.idleSamples = 0;
    return Math.max(nowNs + PERIOD_NS, this.quietUntilNs);
  }

  /**
   * Reports what has been sent since the last sample. Returns when the next one is due; Infinity: nothing is sent. If
   * limits have ended, `apply` puts this into effect.
   */
  sample(nowNs: number): number {
    this.prune();
    const spanNs = nowNs - this.lastNs;
    this.lastNs = nowNs;
    if (!this.isFirst) this.idleSamples++;
    for (const counted of this.counted.values()) if (this.count(counted)) this.idleSamples = 0;
    let intervalNs = 0;
    let messages = 0;
    for (const member of this.members.values()) {
      if (nowNs > member.toldUntilNs) this.endLimits(member);
      messages += this.report(member, this.isFirst || spanNs <= 0 ? Number.POSITIVE_INFINITY : spanNs, nowNs);
      intervalNs = Math.max(intervalNs, member.line?.intervalNs ?? 0);
    }
    this.messages = messages;
    this.isFirst = false;
    if (this.idleSamples >= IDLE_SAMPLES) return Number.POSITIVE_INFINITY;
    const { quietUntilNs } = this;
    if (quietUntilNs <= nowNs) return nowNs + this.periodNs(intervalNs);
    this.isFirst = true;
    return quietUntilNs;
  }

  /** The time until which no context reports anything, because no peer has an agent; 0: there are no flows. */
  private get quietUntilNs(): number {
    let untilNs = Number.POSITIVE_INFINITY;
    for (const { flows, quietUntilNs } of this.members.values())
      if (flows.size > 0) untilNs = Math.min(untilNs, quietUntilNs);
    return untilNs === Number.POSITIVE_INFINITY ? 0 : untilNs;
  }

  private periodNs(intervalNs: number): number {
    const tellNs = PERIOD_INTERVALS * intervalNs * Math.max(1, this.messages);
    return Math.max(PERIOD_NS, tellNs, PERIOD_NS_PER_QP * this.counted.size);
  }

  /** Adds what a queue pair has sent to its flow. Returns whether it has sent anything, or waits. */
  private count({ qp, flow, before }: Counted): boolean {
    const { facts, limits } = this;
    const { out, in: into, requests } = before;
    this.read(qp, before);
    const [sent, received] = [before.out - out, before.in - into];
    const outWaits = facts.waits(qp, false);
    const inWaits = facts.waits(qp, true);
    const isParked = limits.waits(qp.index);
    if (flow !== null) {
      const { sums } = flow;
      sums.out += sent;
      sums.in += received;
      // An estimate: not all requests are READs, and long READs have few requests.
      const reads = Math.min(before.requests - requests, received / facts.responseBytes);
      sums.requests += reads * facts.requestBytes;
      const outIsHeld = outWaits || (isParked && sent >= received);
      const inIsHeld = inWaits || (isParked && received > sent);
      sums.outWaits ||= outIsHeld;
      sums.inWaits ||= inIsHeld;
      if (outIsHeld || sent > 0) sums.outQps++;
      if (inIsHeld || received > 0) sums.inQps++;
    }
    return sent + received > 0 || outWaits || inWaits || isParked;
  }

  /** Returns the number of messages that this takes. */
  private report(member: Member, spanNs: number, nowNs: number): number {
    const flows: Flow[] = [];
    for (const flow of member.flows.values()) {
      const row = this.rowOf(flow, spanNs);
      if (row !== null) flows.push(row);
    }
    const datagrams = this.rowOf(member.datagrams, spanNs);
    if (flows.length === 0 || nowNs < member.quietUntilNs) return 0;
    const line = this.lineOf(member, flows);
    if (line === null) {
      this.quieten(member);
      return 0;
    }
    // They count among what the context may send in all.
    if (datagrams !== null) flows.push(datagrams);
    const periodNs = this.periodNs(line.intervalNs);
    for (let at = 0; at < flows.length; at += MOST_FLOWS)
      if (!line.tell(writeFlows(periodNs, flows.slice(at, at + MOST_FLOWS)))) break;
    return Math.ceil(flows.length / MOST_FLOWS);
  }

  /** The line of a context, opened once a peer may have an agent; null: there is none. */
  private lineOf(member: Member, flows: readonly Flow[]): AgentLine | null {
    const { context, hasLine } = member;
    if (hasLine || !flows.some(({ gid }) => this.registry.mayReach(context, gid, fairAgents)))
      return member.line;
    member.hasLine = true;
    this.openLine(member);
    return member.line;
  }

  /** What is reported of a flow; null: nothing, because it is idle, and was idle before. */
  private rowOf(flow: PeerFlow, spanNs: number): Flow | null {
    const { gid, fromGid, sums, perNs, isReported, limits } = flow;
    const { outWaits, inWaits } = sums;
    limits.peerOut.senders = Math.max(1, sums.outQps);
    limits.peerIn.senders = Math.max(1, sums.inQps);
    if (spanNs === Number.POSITIVE_INFINITY) {
      sums.clear();
      return null;
    }
    const weight = Math.max(SAMPLE_WEIGHT, 1 / ++flow.samples);
    perNs.out += weight * (sums.out / spanNs - perNs.out);
    perNs.in += weight * (sums.in / spanNs - perNs.in);
    perNs.requests += weight * (sums.requests / spanNs - perNs.requests);
    sums.clear();
    const leastPerNs = LEAST_PART * this.facts.linkPerNs;
    const outPerNs = outWaits || perNs.out >= leastPerNs ? perNs.out : 0;
    const inPerNs = inWaits || perNs.in >= leastPerNs ? perNs.in : 0;
    flow.isReported = outPerNs + inPerNs > 0 || outWaits || inWaits;
    if (!flow.isReported) flow.samples = 0;
    if (!flow.isReported && !isReported) return null;
    const out = { perNs: outPerNs, isHungry: outWaits };
    const into = { perNs: inPerNs, isHungry: inWaits };
    const requestsPerNs = perNs.requests >= leastPerNs ? perNs.requests : 0;
    return { gid, fromGid, out, in: into, requestsPerNs };
  }

  /** Puts the pending rates into effect. Returns whether there were any. */
  apply(nowNs: number): boolean {
    const { pending, limits } = this;
    for (const { limit, perNs } of pending) limits.set(limit, perNs, nowNs);
    return pending.splice(0).length > 0;
  }

  private openLine(member: Member): void {
    const { registry } = this;
    const { context } = member;
    registry.line(context, fairAgents, {
      // The agent does not know this context yet, or no longer knows it.
      onUp: (line) => {
        member.line = line;
        this.endLimits(member);
      },
      onTold: (words) => {
        if (isQuiet(words)) this.quieten(member);
        const told = readLimits(words);
        if (told === null) return;
        member.quietNs = QUIET_NS;
        const leastNs = LASTING_PERIODS * this.periodNs(member.line?.intervalNs ?? 0);
        member.toldUntilNs = this.lastNs + Math.max(told.lastsNs, leastNs);
        this.limit(member.limits.out, told.own.outPerNs);
        this.limit(member.limits.in, told.own.inPerNs);
        for (const { gid, outPerNs, inPerNs } of told.peers)
          for (const { gid: own, limits } of member.flows.values()) {
            if (own !== gid) continue;
            this.limit(limits.peerOut, outPerNs);
            this.limit(limits.peerIn, inPerNs);
          }
        registry.notify(context);
      },
    });
  }

  /** No peer of a context has an agent, or none can be reached. */
  private quieten(member: Member): void {
    member.quietUntilNs = this.lastNs + member.quietNs;
    member.quietNs = Math.min(MOST_QUIET_NS, 2 * member.quietNs);
  }

  private limit(limit: Limit, perNs: number): void {
    this.pending.push({ limit, perNs });
  }

  /** Ends all limits of a context: the agent has not renewed them, or no longer knows the context. */
  private endLimits(member: Member): void {
    member.toldUntilNs = Number.POSITIVE_INFINITY;
    this.limit(member.limits.out, 0);
    this.limit(member.limits.in, 0);
    for (const { limits } of member.flows.values()) {
      this.limit(limits.peerOut, 0);
      this.limit(limits.peerIn, 0);
    }
  }
}

const keyOf = (gid: string, fromGid: string): string => `${gid} ${fromGid}`;
