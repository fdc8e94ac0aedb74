/**
 * Justitia (NSDI 2022) paces bandwidth and message-rate applications with tokens, so that the tail latency of latency
 * applications meets a target. The ruler decides the rates (rates.ts), the agent estimates the tail
 * (reference-flows.ts), and token-order.ts decides the order in which applications get tokens. Latency applications
 * bypass all of this.
 */
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import { BYTES } from '../../shim/counters.ts';
import { plainRun } from '../../shim/plain-requests.ts';
import type { Actions, ContextView, Policy, QpChange, QpView } from '../../shim/policy.ts';
import { messageBytes } from '../../shim/qp-ledger.ts';
import type { Resources } from '../../shim/resources.ts';
import { isCrossChannel } from '../../shim/wait/cross-channel.ts';
import { IBV_QPS_RTS, IBV_WR_RDMA_READ } from '../../verbs/constants.ts';
import { gidFromWords } from '../../verbs/gid.ts';
import * as L from '../../verbs/layout.ts';
import type { PolicyGauge, PolicyState } from '../../verbs/provider.ts';
import { byContext, byQueuePair, byTenant, Entities } from '../kit/entities.ts';
import { NONE } from '../kit/run-queue.ts';
import { BLOCKED, passAll } from '../kit/step.ts';
import { type WireFacts, wireBytes, wireFactsOf } from '../kit/wire.ts';
import { mergeOptions } from '../parse-options.ts';
import { HUNGRY_WEIGHT, IS_UNMET, LATENCY_WEIGHT, WEIGHT_GBPS } from './columns.ts';
import { Demands, weightOf } from './demands.ts';
import { describe, gaugesOf } from './describe.ts';
import { short, stateOf } from './device-state.ts';
import { handedTokens } from './handed-tokens.ts';
import { Kinds, LATENCY, THROUGHPUT, UNKNOWN } from './kinds.ts';
import { FIXED, type JustitiaOptions, justitiaOptions } from './options.ts';
import { ANNOUNCE, type Member, Pacer, PULL, READS, SAMPLE, TIMER_KINDS } from './pacer.ts';
import { rateRulesFor, rates } from './rates.ts';
import { ReadLimits } from './read-limits.ts';
import { referenceFlows } from './reference-flows.ts';
import { SplitQps, splitQpOf } from './split.ts';

/** Plain requests of latency applications with fewer bytes bypass `onload`. */
const PLAIN_BYTES = 2 ** 21;
/** Time between samples. An application that had nothing to send since the last sample no longer counts. */
const SAMPLE_NS = 500_000;

/** Time between samples while only latency applications are active. */
const LATENCY_SAMPLE_NS = 4e6;

/** The key of an entity, by granularity. */
const KEYS: Record<JustitiaOptions['granularity'], (qp: QpView) => string> = {
  flow: byQueuePair,
  application: byContext,
  tenant: byTenant,
  group: (qp) => `${byContext(qp)} ${qp.labels.group}`,
};

/** Whether this thread has warned that the target cannot be met. */
let hasWarned = false;

/** The policy justitia. */
export class Justitia implements Policy {
  readonly name = 'justitia';
  readonly needs = { wait: 'none' } as const;
  /** Most chunks of the oldest message in the device's queue. */
  readonly slots = 16;
  readonly splitsAboveBytes: number;
  /** The shim executes the application's WAITs, because the device would count the completions of chunks. */
  readonly crossChannel = true;
  readonly statistics = 'itself';
  /** Completions of latency applications are of no interest to the policy. */
  readonly completionsOf = 'held';
  private options: JustitiaOptions;
  private readonly registry: CoordinatorRegistry;
  private readonly entities: Entities;
  private readonly kinds: Kinds;
  private readonly demands: Demands;
  private readonly splitQps: SplitQps;
  private readonly readLimits = new ReadLimits();
  private readonly pacers: Pacer[] = [];
  // By context, by queue pair, and by entity.
  private readonly members: Member[] = [];
  private readonly qps: QpView[] = [];
  private readonly wire: WireFacts[] = [];
  private readonly pacerOf: Pacer[] = [];
  private readonly weights: number[] = [];
  /** Queue pairs whose READs are about to try again; empty between events. */
  private readonly parked: number[] = [];

  constructor(options: JustitiaOptions, coordinators: CoordinatorRegistry) {
    this.options = options;
    this.registry = coordinators;
    this.splitsAboveBytes = Math.min(options.chunkBytes, options.bulkChunkBytes);
    this.kinds = new Kinds(() => this.options);
    this.demands = new Demands(() => this.options, this.kinds);
    this.splitQps = new SplitQps(splitQpOf(options));
    this.entities = new Entities({
      keyOf: KEYS[options.granularity],
      onNew: (entity, qp) => {
        this.pacerOf[entity] = this.members[qp.context.index].pacer;
        this.pacerOf[entity].order.reset(entity);
      },
      mayForget: (entity, nowNs) => this.pacerOf[entity].order.isEven(entity, nowNs),
    });
  }

  setup(resources: Resources, out: Actions): void {
    const { context } = resources;
    const { registry } = this;
    registry.govern(context, rates, this.options, rateRulesFor(context));
    this.splitQps.setup(resources);
    this.readLimits.open(context);
    const page = registry.page(context);
    const pacer = this.pacers.find(({ device }) => device === context.device) ?? this.addPacer(context);
    const columns = page.columns(rates);
    const tokens = page.columns(handedTokens);
    const told = new Map();
    const member: Member = {
      context,
      page,
      columns,
      tokens,
      pacer,
      qps: [],
      line: null,
      told,
      owesWords: false,
    };
    this.members[context.index] = member;
    pacer.members.push(member);
    registry.decide(context, rates, out.nowNs(context));
    pacer.refresh(out.nowNs(context));
  }

  private addPacer(context: ContextView): Pacer {
    const sharers = { entities: this.entities, weightOf: (entity: number) => this.weights[entity] };
    const pacer = new Pacer(this.pacers.length, context, sharers, () => this.options, this.issue);
    this.pacers.push(pacer);
    return pacer;
  }

  configure(changes: Readonly<Record<string, unknown>>, out: Actions): void {
    this.options = mergeOptions('justitia', justitiaOptions, this.options, changes, FIXED);
    for (const pacer of this.pacers) {
      const [first] = this.openMembers(pacer);
      if (first === undefined) continue;
      for (const { context } of this.openMembers(pacer))
        this.registry.changeRules(context, rates, this.options, rateRulesFor(context));
      this.registry.decide(first.context, rates, out.nowNs(first.context));
      this.registry.announce(pacer.device);
      pacer.refresh(out.nowNs(first.context));
      pacer.puller.onTimer(out);
      for (const member of pacer.members) this.reviewKinds(member, out);
    }
  }

  /** `classify` may have changed. */
  private reviewKinds(member: Member, out: Actions): void {
    const changed = member.qps.filter((qp) => this.kinds.review(qp));
    if (changed.length === 0) return;
    for (const qp of changed) out.passPlain(qp, 0);
    this.report(member, out);
    for (const qp of changed) this.feed(qp, out);
  }

  /** The members of a pacer whose contexts are open. Forgets the others. */
  private openMembers(pacer: Pacer): readonly Member[] {
    const open = pacer.members.filter(({ context }) => this.registry.has(context));
    if (open.length < pacer.members.length) pacer.members.splice(0, pacer.members.length, ...open);
    return pacer.members;
  }

  onQp(qp: QpView, change: QpChange, out: Actions): void {
    if (change === 'created') this.add(qp, out);
    else if (change === 'destroyed') this.remove(qp, out);
    else if (change === 'labels') this.relabel(qp, out);
    else this.changeState(qp, out);
  }

  private add(qp: QpView, out: Actions): void {
    const member = this.members[qp.context.index];
    this.qps[qp.index] = qp;
    this.wire[qp.index] = wireFactsOf(qp.context.nic);
    this.kinds.add(qp);
    this.demands.add(qp);
    this.splitQps.reset(qp);
    member.qps.push(qp);
    this.joinEntity(qp, out);
    member.pacer.puller.onQp(qp, 'created', out);
  }

  private joinEntity(qp: QpView, out: Actions): void {
    const before = this.entities.of(qp);
    const entity = this.entities.rejoin(qp, out.nowNs(qp.context));
    if (before !== NONE && this.entities.count(entity) === 1)
      this.pacerOf[entity].order.inherit(before, entity);
    this.weights[entity] = weightOf(qp, this.options.granularity);
    this.pacerOf[entity].order.stay(entity);
  }

  private remove({ index }: { readonly index: number }, out: Actions): void {
    const qp = this.qps[index];
    if (this.entities.of({ index }) === NONE) return;
    const member = this.members[qp.context.index];
    member.pacer.puller.onQp(qp, 'destroyed', out);
    this.readLimits.forget(index);
    this.entities.leave({ index }, out.nowNs(member.context));
    member.qps.splice(member.qps.indexOf(qp), 1);
    this.demands.active[index] = 0;
    if (this.registry.has(member.context)) this.report(member, out);
    this.passSampling(member, out);
  }

  /** Another context takes over the sample timer of one that closes, because its timers close with it. */
  private passSampling(member: Member, out: Actions): void {
    const { pacer, qps } = member;
    if (pacer.sampledBy !== member || qps.length > 0) return;
    const next = this.openMembers(pacer).find((one) => one !== member && one.qps.length > 0);
    pacer.sampledBy = null;
    if (next !== undefined) this.planSample(next, SAMPLE_NS, out);
  }

  private relabel(qp: QpView, out: Actions): void {
    const member = this.members[qp.context.index];
    const isHeld = out.backlog(qp) > 0;
    member.pacer.puller.onQp(qp, 'destroyed', out);
    this.joinEntity(qp, out);
    member.pacer.puller.onQp(qp, 'created', out);
    this.kinds.set(qp);
    out.passPlain(qp, 0);
    this.report(member, out);
    if (isHeld) this.feed(qp, out);
  }

  private changeState(qp: QpView, out: Actions): void {
    const member = this.members[qp.context.index];
    if (qp.sgid !== '') this.registry.registerGid(qp.context.device, qp.sgid);
    this.splitQps.reset(qp);
    // The queue pair may be connected with another host now.
    this.readLimits.assign(qp);
    member.pacer.puller.onQp(qp, 'state', out);
    if (qp.dgid !== '' && member.line === null && !qp.broken) this.openLine(member);
    if (this.options.paper === true) this.demands.sample(member, out);
    if (qp.broken) this.demands.active[qp.index] = 0;
    if (qp.state !== IBV_QPS_RTS) member.pacer.order.pause(this.entities.of(qp));
    this.report(member, out);
  }

  private openLine(member: Member): void {
    const { context } = member;
    this.registry.line(context, referenceFlows, {
      onUp: (line) => {
        member.line = line;
        this.demands.reportAgain(member);
        if (member.owesWords) this.registry.notify(context);
      },
      onTold: (words) => {
        const gid = words.length === 5 ? gidFromWords(words, 0) : null;
        if (gid === null || !(words[4] >= 0)) return;
        this.readLimits.allow(context, gid, words[4], this.options.chunkBytes);
        for (const qp of member.qps) this.readLimits.assign(qp);
        // READs that wait because of the previous rate try again.
        this.registry.notify(context);
      },
    });
  }

  /** Reports what a member has to send, and lets the ruler decide if that has changed. */
  private report(member: Member, out: Actions): void {
    const { context, pacer } = member;
    const isNews = this.demands.report(member);
    this.keepTelling(member, out);
    if (!isNews) return;
    const nowNs = out.nowNs(context);
    this.registry.decide(context, rates, nowNs);
    pacer.refresh(nowNs);
    // By a timer, because nothing may be issued within a post.
    if (this.registry.hasChanges(context)) out.timer(context, nowNs, pacer.tokenOf(ANNOUNCE));
  }

  /** What the line has dropped is reported again with a later sample. */
  private keepTelling(member: Member, out: Actions): void {
    if (member.owesWords && member.pacer.sampledBy === null) this.planSample(member, LATENCY_SAMPLE_NS, out);
  }

  /**
   * Latency applications pass. Messages of message-rate applications pass while there are tokens for them. Everything
   * else is held for `feed`.
   */
  onload(qp: QpView, words: Uint32Array, start: number, count: number, out?: Actions): number {
    // In a thread other than the policy's, only declarations are known.
    if (out === undefined) return qp.labels.traffic === LATENCY ? this.passAny(qp, words, start, count) : 0;
    if (this.kinds.of(qp) === UNKNOWN) this.classify(qp, words, start, count, out);
    const kind = this.kinds.of(qp);
    if (kind === LATENCY) {
      this.startSampling(this.members[qp.context.index], out);
      if (plainRun(words, start, count, PLAIN_BYTES) === count) out.passPlain(qp, PLAIN_BYTES);
      return this.passAny(qp, words, start, count);
    }
    this.use(qp, out);
    return kind === THROUGHPUT ? this.passPaid(qp, words, start, count) : 0;
  }

  /** Passes requests of a latency application, and counts their bytes. The shim executes WAITs and ENABLEs. */
  private passAny(qp: QpView, words: Uint32Array, start: number, count: number): number {
    let bytes = 0;
    let i = 0;
    for (; i < count; i++) {
      const at = L.slotAt(start + i);
      if (isCrossChannel(words, at)) return 0;
      if (isLongList(words, at)) break;
      bytes += messageBytes(words, at, 0);
    }
    qp.counts[BYTES] += bytes;
    return i;
  }

  /** Passes messages for which the entity has tokens. */
  private passPaid(qp: QpView, words: Uint32Array, start: number, count: number): number {
    const { pacer } = this.members[qp.context.index];
    const entity = this.entities.of(qp);
    const wire = this.wire[qp.index];
    const available = pacer.order.available(entity);
    let spent = 0;
    let bytes = 0;
    let i = 0;
    for (; i < count && available > spent; i++) {
      const at = L.slotAt(start + i);
      const opcode = words[at + L.WR_OP] & 0xff;
      // READs must also keep to the responder's rate.
      if (isLongList(words, at) || isCrossChannel(words, at) || opcode === IBV_WR_RDMA_READ) break;
      const length = messageBytes(words, at, 0);
      if (length > pacer.clock.tokenBytes) break;
      bytes += length;
      spent += Math.max(wireBytes(wire, opcode, length), pacer.clock.messageBytes);
    }
    pacer.order.spend(entity, spent);
    qp.counts[BYTES] += bytes;
    return i;
  }

  /** Determines the kind of a queue pair from its first requests. */
  private classify(qp: QpView, words: Uint32Array, start: number, count: number, out: Actions): void {
    let most = 0;
    for (let i = 0; i < count; i++) {
      const at = L.slotAt(start + i);
      most = Math.max(most, isLongList(words, at) ? PLAIN_BYTES : messageBytes(words, at, 0));
    }
    this.kinds.first(qp, most, count);
    this.report(this.members[qp.context.index], out);
  }

  /** A queue pair has something to send. */
  private use(qp: QpView, out: Actions): void {
    const { demands } = this;
    const { index } = qp;
    demands.used[index] = 1;
    if (demands.active[index] === 1) return;
    const member = this.members[qp.context.index];
    demands.active[index] = 1;
    this.report(member, out);
    this.startSampling(member, out);
  }

  private startSampling(member: Member, out: Actions): void {
    if (member.pacer.sampledBy === null && this.options.paper !== true)
      this.planSample(member, SAMPLE_NS, out);
  }

  private planSample(member: Member, periodNs: number, out: Actions): void {
    const { context, pacer } = member;
    pacer.sampledBy = member;
    out.timer(context, out.nowNs(context) + periodNs, pacer.tokenOf(SAMPLE), true);
  }

  feed(qp: QpView, out: Actions): void {
    if (out.backlog(qp) === 0) return;
    const member = this.members[qp.context.index];
    if (this.kinds.of(qp) === UNKNOWN) this.kinds.first(qp, out.nextBytes(qp), out.outstanding(qp));
    if (this.kinds.of(qp) === LATENCY) {
      passAll(qp, out);
      return;
    }
    this.use(qp, out);
    const isRead = out.nextOpcode(qp) === IBV_WR_RDMA_READ;
    if (this.demands.noteOpcode(qp, isRead)) {
      if (isRead) this.readLimits.assign(qp);
      this.report(member, out);
    }
    member.pacer.puller.enlist(qp, out);
  }

  /** Issues a request or a chunk of one (PullerOptions.issue). */
  private readonly issue = (qp: QpView, out: Actions, chunkBytes: number): number => {
    if (out.nextOpcode(qp) !== IBV_WR_RDMA_READ) return this.splitQps.step(qp, out, chunkBytes);
    const { readLimits } = this;
    const { context } = qp;
    const { columns, pacer } = this.members[context.index];
    if (!readLimits.admits(qp, columns.reports[HUNGRY_WEIGHT], out.nowNs(context))) {
      out.timer(context, readLimits.readyNs(qp), pacer.tokenOf(READS));
      return BLOCKED;
    }
    const bytes = this.splitQps.step(qp, out, chunkBytes);
    if (bytes !== BLOCKED) readLimits.charge(qp, bytes);
    return bytes;
  };

  onCompleted(qp: QpView, _count: number, out: Actions): void {
    this.members[qp.context.index]?.pacer.puller.onCompleted(qp, out);
  }

  onGrants(context: ContextView, out: Actions): void {
    const member = this.members[context.index];
    if (member === undefined) return;
    const { pacer } = member;
    pacer.refresh(out.nowNs(context));
    pacer.puller.onTimer(out);
    this.enlistParked(out);
    this.keepTelling(member, out);
  }

  onTimer(token: number, out: Actions): void {
    const pacer = this.pacers[Math.floor(token / TIMER_KINDS)];
    const kind = token % TIMER_KINDS;
    if (pacer === undefined) return;
    if (kind === PULL) pacer.puller.onTimer(out);
    else if (kind === READS) this.enlistParked(out);
    else if (kind === ANNOUNCE) this.registry.announce(pacer.device);
    else this.sample(pacer, out);
  }

  /** Queue pairs whose READs waited for their responders' rates try again. */
  private enlistParked(out: Actions): void {
    for (let index = this.readLimits.unpark(); index !== NONE; index = this.readLimits.unpark())
      this.parked.push(index);
    for (const index of this.parked) {
      const qp = this.qps[index];
      if (out.backlog(qp) > 0) this.members[qp.context.index].pacer.puller.enlist(qp, out);
    }
    this.parked.length = 0;
  }

  private sample(pacer: Pacer, out: Actions): void {
    let [active, other]: (Member | null)[] = [null, null];
    for (const member of this.openMembers(pacer)) {
      const isOther = this.sampleKinds(member, out);
      if (this.demands.sample(member, out)) active = member;
      this.report(member, out);
      if (member.columns.reports[LATENCY_WEIGHT] > 0 || member.owesWords) other = member;
      if (isOther) for (const qp of member.qps) if (out.backlog(qp) > 0) this.feed(qp, out);
    }
    this.registry.announce(pacer.device);
    this.warnOnce(pacer);
    const next = active ?? other;
    pacer.sampledBy = null;
    // Latency applications alone are sampled less often.
    if (next !== null) this.planSample(next, active === null ? LATENCY_SAMPLE_NS : SAMPLE_NS, out);
  }

  /** Warns if the target cannot be met. One warning is enough, because `inspect` reports every device. */
  private warnOnce({ device, members }: Pacer): void {
    const grants = members[0]?.columns.grants;
    if (grants === undefined || grants[IS_UNMET] === 0 || hasWarned) return;
    hasWarned = true;
    const { tailNs, worstPeer } = stateOf(grants, this.options.targetUs * 1e3);
    process.emitWarning(
      `justitia: ${device} cannot meet a target of ${this.options.targetUs} us: at the lowest rate, the p99 latency of the reference flow${worstPeer === null ? 's' : ` to ${worstPeer}`} is ${short(tailNs / 1e3)} us; raise targetUs`,
      { code: 'ISO_TARGET' },
    );
  }

  /** Samples the kinds of queue pairs. Returns whether any has changed. */
  private sampleKinds({ qps, columns, pacer }: Member, out: Actions): boolean {
    const { grants, reports } = columns;
    let hasChanged = false;
    const latencyQps = qps.filter((qp) => this.kinds.of(qp) === LATENCY).length;
    const share = (reports[LATENCY_WEIGHT] * grants[WEIGHT_GBPS]) / 8 / Math.max(1, latencyQps);
    for (const qp of qps) {
      if (!this.kinds.sample(qp, share, pacer.clock.messageBytes, out)) continue;
      hasChanged = true;
      out.passPlain(qp, 0);
    }
    return hasChanged;
  }

  /** The kind of each open context, and what it gets. */
  inspect(): Omit<PolicyState, 'policy'>[] {
    const open = this.members.filter((member) => this.registry.has(member.context));
    return open.flatMap((member) => describe(member, this.kinds, this.options));
  }

  /** SafeUtil, its lower bound, the estimate and what reference flows take, by device. */
  gauges(): Omit<PolicyGauge, 'policy'>[] {
    return this.pacers.flatMap((pacer) => gaugesOf(this.openMembers(pacer), this.options));
  }
}

/** Whether a request has more than the two SGEs in its slot, so that only the shim's copy knows its size. */
function isLongList(words: Uint32Array, at: number): boolean {
  return words[at + L.WR_OP] >>> 16 > 2;
}
