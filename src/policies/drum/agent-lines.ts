/**
 * The lines of contexts to drum's agent: once an epoch, a context reports whether its application is in use, and where its
 * requests cause completions; the agent answers with the rates of the application.
 */
import type { AgentLine } from '../../coordinator/agent.ts';
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import { HELD, HELD_TWO_SIDED, SEEN } from '../../shim/counters.ts';
import { takesReceive } from '../../shim/peer/outbox.ts';
import type { ContextView, QpView } from '../../shim/policy.ts';
import * as L from '../../verbs/layout.ts';
import { drumAgents } from './agent/drum-agent.ts';
import { type Rates, readRates, writeUse } from './agent/messages.ts';
import { drumTerms, termRulesOf } from './agent/terms.ts';
import type { DrumOptions } from './options.ts';

/** The weight of one epoch in the mean of requests. */
const EPOCH_PART = 1 / 4;
/** Requests to a peer are reported as a share of all, in steps of this. */
const SHARE_STEP = 1 / 32;

/** A queue pair, and what it has posted. */
interface Counted {
  readonly qp: QpView;
  /** Requests whose opcodes are known, and those of them that take a receive, other than held ones. */
  passed: number;
  twoSided: number;
  /** At the last sample. */
  seenBefore: number;
  passedBefore: number;
  twoSidedBefore: number;
}

/** Requests that cause completions at a peer. */
interface Traffic {
  readonly gid: string;
  readonly fromGid: string;
  /** Of an epoch; smoothed. */
  requests: number;
  /** Of the last epoch alone. */
  latest: number;
}

/** A context with a line. */
interface Member {
  readonly context: ContextView;
  line: AgentLine | null;
  readonly qps: Set<Counted>;
  /** Requests of an epoch; smoothed. */
  requests: number;
  /** By both GIDs. */
  readonly traffic: Map<string, Traffic>;
  /** The words that were reported last; empty: none. */
  reported: readonly number[];
  rates: Rates | null;
}

/** The lines of the contexts of one device in this process. */
export class AgentLines {
  private readonly registry: CoordinatorRegistry;
  /** By context. */
  private readonly members = new Map<number, Member>();
  /** By queue pair. */
  private readonly counted: (Counted | undefined)[] = [];

  constructor(registry: CoordinatorRegistry) {
    this.registry = registry;
  }

  /**
   * A context was opened, which is a member of its device already.
   * @param requestsPerS what the device can issue
   */
  open(context: ContextView, options: DrumOptions, requestsPerS: number, nowNs: number): void {
    const { registry } = this;
    registry.govern(context, drumTerms, options, termRulesOf);
    registry.decide(context, drumTerms, nowNs);
    const member: Member = {
      ...{ context, line: null, qps: new Set(), requests: 0, traffic: new Map(), reported: [], rates: null },
    };
    this.members.set(context.index, member);
    registry.line(context, drumAgents, {
      onUp: (line) => {
        member.line = line;
        member.reported = [];
        // Idle, until the end of an epoch shows otherwise; a context that only receives stays so.
        tell(member, false, requestsPerS);
      },
      onTold: (words) => {
        member.rates = readRates(words) ?? member.rates;
        registry.notify(context);
      },
    });
  }

  /** Options have changed. */
  configure(options: DrumOptions, nowNs: number): void {
    const open = this.openMembers();
    for (const { context } of open) this.registry.changeRules(context, drumTerms, options, termRulesOf);
    if (open.length > 0) this.registry.decide(open[0].context, drumTerms, nowNs);
  }

  private openMembers(): Member[] {
    for (const [index, { context }] of this.members)
      if (!this.registry.has(context)) this.members.delete(index);
    return [...this.members.values()];
  }

  /** A queue pair was created. */
  add(qp: QpView): void {
    const zeros = { passed: 0, twoSided: 0, seenBefore: 0, passedBefore: 0, twoSidedBefore: 0 };
    const counted = { qp, ...zeros };
    this.counted[qp.index] = counted;
    this.members.get(qp.context.index)?.qps.add(counted);
  }

  /** A queue pair was destroyed. */
  drop({ index }: { readonly index: number }): void {
    const counted = this.counted[index];
    this.counted[index] = undefined;
    for (const { qps } of this.members.values()) if (counted !== undefined) qps.delete(counted);
  }

  /** Counts requests that pass. The shim counts those that it holds. */
  pass({ index }: QpView, words: Uint32Array, start: number, count: number): void {
    const counted = this.counted[index];
    if (counted === undefined) return;
    counted.passed += count;
    for (let i = 0, at = L.slotAt(start); i < count; i++, at += L.SLOT_WORDS)
      if (takesReceive(words[at + L.WR_OP] & 0xff)) counted.twoSided++;
  }

  /**
   * The rates that the agent gives to applications: each context has a part of them.
   * @param appOf the application of a queue pair
   */
  rates(appOf: (qp: QpView) => number): Map<number, Rates> {
    const all = new Map<number, Rates>();
    for (const { qps, rates } of this.members.values()) {
      const [any] = qps;
      if (any === undefined || rates === null) continue;
      const app = appOf(any.qp);
      const sum = all.get(app);
      all.set(app, {
        requestsPerS: rates.requestsPerS + (sum?.requestsPerS ?? 0),
        completionsPerS: rates.completionsPerS + (sum?.completionsPerS ?? 0),
        isHeldBack: rates.isHeldBack,
      });
    }
    return all;
  }

  /**
   * Ends an epoch: reports what has changed. Returns whether the agent now knows all of it.
   * @param isActive whether the application of a queue pair is in use
   * @param requestsPerS what the device can issue
   */
  report(isActive: (qp: QpView) => boolean, requestsPerS: number): boolean {
    let knowsAll = true;
    for (const member of this.openMembers()) {
      const [any] = member.qps;
      sample(member);
      if (!tell(member, any !== undefined && isActive(any.qp), requestsPerS)) knowsAll = false;
    }
    return knowsAll;
  }
}

/** Averages what a context has posted. An epoch without requests says nothing about where requests go. */
function sample(member: Member): void {
  const { traffic } = member;
  let requests = 0;
  for (const one of traffic.values()) one.latest = 0;
  for (const counted of member.qps) {
    const { sgid, dgid, counts } = counted.qp;
    const known = counted.passed + counts[HELD];
    const twoSided = counted.twoSided + counts[HELD_TWO_SIDED];
    const seen = counts[SEEN] - counted.seenBefore;
    // Requests that bypass the policy are assumed to take receives as often as the others.
    const part = (twoSided - counted.twoSidedBefore) / Math.max(1, known - counted.passedBefore);
    [counted.seenBefore, counted.passedBefore, counted.twoSidedBefore] = [counts[SEEN], known, twoSided];
    requests += seen;
    if (dgid === '' || part <= 0) continue;
    const key = `${dgid} ${sgid}`;
    const one = traffic.get(key) ?? { gid: dgid, fromGid: sgid, requests: 0, latest: 0 };
    traffic.set(key, one);
    one.latest += Math.min(1, part) * seen;
  }
  if (requests === 0) return;
  const weight = member.requests === 0 ? 1 : EPOCH_PART;
  member.requests += weight * (requests - member.requests);
  for (const [key, one] of traffic) {
    one.requests += weight * (one.latest - one.requests);
    if (one.requests < SHARE_STEP * SHARE_STEP * member.requests) traffic.delete(key);
  }
}

/** Reports what a context does, if that has changed. Returns false if it must be reported later. */
function tell(member: Member, isActive: boolean, requestsPerS: number): boolean {
  const { line, traffic, requests } = member;
  if (line === null) return true;
  const peers = [...traffic.values()].map(({ gid, fromGid, requests: some }) => ({
    ...{ gid, fromGid, per: Math.min(1, Math.round(some / requests / SHARE_STEP) * SHARE_STEP) },
  }));
  peers.sort((a, b) => b.per - a.per || (a.gid < b.gid ? -1 : 1));
  // Roughly, because it matters only next to other contexts of the same tenant.
  const scale = requests > 0 ? 2 ** Math.round(Math.log2(requests)) : 0;
  const { weight } = member.context.labels;
  const words = writeUse({ isActive, requestsPerS, requests: scale, peers });
  const now = [...words, weight];
  if (now.length === member.reported.length && now.every((word, i) => word === member.reported[i]))
    return true;
  // The agent may answer within the call.
  const before = member.reported;
  member.reported = now;
  if (line.tell(words)) return true;
  member.reported = before;
  return false;
}
