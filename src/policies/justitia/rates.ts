/**
 * The ruler of justitia: SafeUtil, the rate of a device's tokens, and the share of each member (sections 4.3.1 to 4.3.3
 * of the paper). SafeUtil follows the estimate of the agent (reference-flows.ts).
 */
import type {
  Decider,
  Description,
  GrantColumn,
  MembersView,
  ReportColumn,
  Ruler,
} from '../../coordinator/ruler.ts';
import type { ContextView } from '../../shim/policy.ts';
import { IBV_WR_RDMA_WRITE } from '../../verbs/constants.ts';
import type { NicFacts } from '../../verbs/nic.ts';
import { chunkFor } from '../kit/chunks.ts';
import { wireBytes, wireFactsOf } from '../kit/wire.ts';
import { RATE_GRANTS, RATE_REPORTS, UNPACED_GBPS, WORST_GID_COLUMNS } from './columns.ts';
import { type DeviceState, ratesText, tailText, worstPeerOf } from './device-state.ts';
import { MemberWeights } from './member-weights.ts';
import { type JustitiaOptions, justitiaOptions } from './options.ts';

/** The rules of one device. */
export interface RateRules {
  readonly isPaper: boolean;
  readonly targetNs: number;
  readonly refPeriodNs: number;
  readonly refCount: number;
  readonly seed: number;
  readonly chunkBytes: number;
  readonly bulkChunkBytes: number;
  /** The measured rates of chunk sizes, if the chunk size follows SafeUtil; otherwise null. */
  readonly chunks: NicFacts['chunks'];
  readonly sharesByTenant: boolean;
  /** Whether a context has its tenant's weight once, whatever the number of its flows and groups. */
  readonly sharesByContext: boolean;
  readonly countsLatencyOnce: boolean;
  readonly maxPeerWeight: number;
  /** The highest rate of the device; 0: unknown. */
  readonly maxGbps: number;
  /** The message rates of one queue pair and of the device, per microsecond; 0: unknown. */
  readonly qpMmps: number;
  readonly maxMmps: number;
  /** Whether `tokenMessages` limits message-rate applications even if there are no others. */
  readonly limitsMessages: boolean;
  /** Bytes on the wire of a message of a reference flow. */
  readonly referenceWireBytes: number;
}

/** Bytes of a message of a reference flow. */
export const REFERENCE_BYTES = 10;

/** MaxRate next to latency applications, as a part of the highest rate. */
const MAX_PART = 0.97;
/** SafeUtil grows by 1 MB/s in each RefPeriod; the paper gives no unit. */
const STEP_GBPS = 0.008;
/** The factor by which SafeUtil falls when the tail is too long. */
const FALL = 0.9;
const FALL_PAPER = 0.5;
/** Samples after which the tail of a new rate is judged (not with `paper`). */
const LEAST_SAMPLES = 200;
/** An estimate counts for this long after the last latency that the agent has measured. */
const STALE_NS = 1e8;
/** The most RefPeriods of growth that a late decision makes up for. */
const MAX_STEPS = 100;
/** The target cannot be met if the estimate stays above it at the lowest rate for this many RefPeriods. */
const UNMET_PERIODS = 1000;

/** The rules of a device. Values that the options do not set come from the facts about the NIC. */
export function rateRulesOf(options: JustitiaOptions, nic: NicFacts | null): RateRules {
  const { paper, chunks, tokenMessages, bulkChunkBytes } = options;
  const maxGbps = options.maxGbps ?? nic?.maxGbps ?? nic?.linkGbps ?? 0;
  const gapMmps = nic?.wqeGapNs ? 1e3 / nic.wqeGapNs : 0;
  const qpMmps = tokenMessages ? (tokenMessages * maxGbps) / 8e-3 / bulkChunkBytes : (nic?.qpMmps ?? gapMmps);
  return {
    isPaper: paper === true,
    targetNs: options.targetUs * 1e3,
    refPeriodNs: options.refPeriodUs * 1e3,
    refCount: options.refCount,
    seed: options.seed,
    chunkBytes: options.chunkBytes,
    bulkChunkBytes,
    chunks: chunks === 'dictionary' ? (nic?.chunks ?? null) : null,
    sharesByTenant: options.granularity === 'tenant',
    sharesByContext: options.granularity === 'tenant' || options.granularity === 'application',
    countsLatencyOnce: options.latencyCounts === 'one',
    maxPeerWeight: options.maxPeerWeight,
    maxGbps,
    qpMmps,
    maxMmps:
      options.maxMmps ?? (tokenMessages ? qpMmps : (nic?.maxMmps ?? gapMmps * (nic?.processingUnits ?? 0))),
    limitsMessages: tokenMessages !== undefined,
    referenceWireBytes: wireBytes(wireFactsOf(nic), IBV_WR_RDMA_WRITE, REFERENCE_BYTES),
  };
}

/** `rateRulesOf` for the NIC of a context. */
export const rateRulesFor =
  ({ nic }: Pick<ContextView, 'nic'>) =>
  (options: JustitiaOptions): RateRules =>
    rateRulesOf(options, nic);

/** The sums of what members report. */
class Demand {
  weight = 0;
  latency = 0;
  latencyWeight = 0;
  sendsBulk = false;
  /** By member: the weight of its share; 0 if it has nothing to send. */
  of = new Float64Array(0);
  private readonly members: MembersView;
  private readonly bulk: ReportColumn;
  readonly weights: MemberWeights;

  constructor(members: MembersView) {
    this.members = members;
    this.bulk = members.report('sendsBulk');
    this.weights = new MemberWeights(members);
  }

  sum({ sharesByTenant, sharesByContext, countsLatencyOnce }: RateRules, nowNs: number): void {
    const { tenants } = this.members;
    this.weights.isByContext = sharesByContext;
    tenants.group();
    if (this.of.length < tenants.memberLimit) this.of = new Float64Array(2 * tenants.memberLimit);
    [this.weight, this.latency, this.sendsBulk] = [0, 0, false];
    for (let tenant = 0; tenant < tenants.length; tenant++) {
      const { sum, latency } = this.sumTenant(tenant, sharesByTenant, nowNs);
      this.weight += sum;
      this.latency += latency;
    }
    this.latencyWeight = this.latency;
    if (countsLatencyOnce && this.latency > 0) this.latency = 1;
  }

  private sumTenant(tenant: number, asOne: boolean, nowNs: number): { sum: number; latency: number } {
    const { tenants } = this.members;
    let [sum, most, latency] = [0, 0, 0];
    for (let at = tenants.firstOf(tenant); at < tenants.firstOf(tenant + 1); at++) {
      const member = tenants.memberAt(at);
      this.of[member] = 0;
      if (this.members.isSilent(member, nowNs)) continue;
      const weight = this.weights.hungryOf(member);
      this.of[member] = weight;
      sum += weight;
      most = Math.max(most, weight);
      const own = this.weights.latencyOf(member);
      latency = asOne ? Math.max(latency, own) : latency + own;
      if (weight > 0 && this.bulk.of(member) > 0) this.sendsBulk = true;
    }
    // The weight of a tenant counts once, whatever the number of its contexts.
    if (asOne && sum > 0) {
      for (let at = tenants.firstOf(tenant); at < tenants.firstOf(tenant + 1); at++)
        this.of[tenants.memberAt(at)] *= most / sum;
      sum = most;
    }
    return { sum, latency };
  }
}

/** The grants of the device, by name. */
type DeviceColumn = (typeof RATE_GRANTS)[number]['name'];

class Rates implements Decider<RateRules> {
  private readonly members: MembersView;
  private readonly demand: Demand;
  private readonly rateGbps: GrantColumn;
  private readonly tokenBytes: GrantColumn;
  private readonly messageBytes: GrantColumn;
  /** By member, written by the agent: the part of its share that its receivers allow. */
  private readonly partOf: GrantColumn;
  private readonly device = new Map<DeviceColumn, GrantColumn>();
  private safeUtilGbps = 0;
  private steppedNs = Number.NaN;
  /** By member: its share of SafeUtil, as a fraction. */
  private parts = new Float64Array(0);
  /** When the estimate last met the target, or SafeUtil was last above its lower bound. */
  private metNs = 0;
  private hadLatency = false;
  private isUnmet = false;
  /** The number of latencies that the agent has measured, and when this number last changed. */
  private probes = 0;
  private probedNs = 0;
  /** Whether the last decision found no member with anything to send. */
  private wasQuiet = true;
  /** The last estimate. */
  private tailNs = 0;
  private readonly worstGid: readonly GrantColumn[];
  /** The words of the GID to which the estimate belongs, and whether members have not seen them yet. */
  private readonly worst = new Float64Array(WORST_GID_COLUMNS.length);
  private isWorstNew = false;
  private targetNs = 0;
  private referenceShare = 0;
  /** The part of MaxRate that the receivers last allowed. */
  private receiverPart = 1;
  /** Whether no paced application has anything to send, so that estimates say nothing about SafeUtil. */
  private isIdle = true;

  constructor(members: MembersView) {
    this.members = members;
    this.demand = new Demand(members);
    this.rateGbps = members.grant('rateGbps');
    this.tokenBytes = members.grant('tokenBytes');
    this.messageBytes = members.grant('messageBytes');
    this.partOf = members.grant('receiverPart');
    for (const { name } of RATE_GRANTS) this.device.set(name, members.grant(name));
    this.worstGid = WORST_GID_COLUMNS.map((name) => members.grant(name));
  }

  private read(column: DeviceColumn): number {
    return this.device.get(column)!.of(this.members.device);
  }

  private write(column: DeviceColumn, value: number): boolean {
    return this.device.get(column)!.set(this.members.device, value);
  }

  decide(rules: RateRules, nowNs: number, changed: (member: number) => void): void {
    const { demand } = this;
    this.publish(rules);
    demand.sum(rules, nowNs);
    // Under another policy, members report nothing here.
    const isQuiet = demand.weight === 0 && demand.latencyWeight === 0 && this.read('readWeight') === 0;
    if (isQuiet && this.wasQuiet) return;
    this.wasQuiet = isQuiet;
    // Applications at the two ends of a connection are not counted twice.
    const latency = Math.max(this.read('remoteLatency'), demand.latency);
    const mostGbps = rules.maxGbps || this.members.linkGbps;
    const maxGbps = latency > 0 ? MAX_PART * mostGbps : mostGbps;
    const all = demand.weight + this.read('readWeight');
    // If no application has anything to send: what the first one would get.
    const weight = all || 1;
    const rMinGbps = Math.min(weight / (weight + latency), this.read('receiverPart')) * maxGbps;
    this.isIdle = all === 0;
    this.targetNs = rules.targetNs;
    this.followReceivers();
    this.adapt(rules, latency > 0 ? rMinGbps : Number.NaN, maxGbps, nowNs);
    this.write('maxGbps', maxGbps);
    this.write('rMinGbps', rMinGbps);
    this.grant(rules, latency > 0, { all, maxGbps }, changed);
  }

  /** Lowers SafeUtil at once when receivers allow less than before, instead of by the steps of `adapt`. */
  private followReceivers(): void {
    const part = this.read('receiverPart');
    if (part < this.receiverPart) this.safeUtilGbps *= part / this.receiverPart;
    this.receiverPart = part;
  }

  /** Writes the rules that the agent needs. */
  private publish(rules: RateRules): void {
    const { isPaper, targetNs, refPeriodNs, refCount, seed } = rules;
    const { countsLatencyOnce, sharesByContext, maxPeerWeight } = rules;
    this.write('targetNs', targetNs);
    this.write('refPeriodNs', refPeriodNs);
    this.write('refCount', refCount);
    this.write('refLeast', isPaper ? 1 : Math.min(LEAST_SAMPLES, refCount));
    this.write('seed', seed);
    this.write('countsLatencyOnce', countsLatencyOnce ? 1 : 0);
    this.write('sharesByContext', sharesByContext ? 1 : 0);
    this.write('maxPeerWeight', maxPeerWeight);
  }

  /** Moves SafeUtil once in each RefPeriod. @param rMinGbps NaN without latency applications */
  private adapt(rules: RateRules, rMinGbps: number, maxGbps: number, nowNs: number): void {
    const { isPaper, targetNs, refPeriodNs } = rules;
    if (Number.isNaN(rMinGbps)) {
      this.safeUtilGbps = maxGbps;
      this.steppedNs = nowNs;
      this.hadLatency = false;
      this.isUnmet = false;
      this.referenceShare = 0;
      this.noteTail(0);
      return;
    }
    // SafeUtil begins at its lower bound, whatever was sent before.
    if (!this.hadLatency) {
      [this.safeUtilGbps, this.hadLatency] = [rMinGbps, true];
      [this.metNs, this.probedNs] = [nowNs, nowNs];
    }
    // A clock that jumps back begins a new period.
    if (!(nowNs >= this.steppedNs)) [this.steppedNs, this.metNs] = [nowNs, nowNs];
    const periods = Math.floor((nowNs - this.steppedNs) / refPeriodNs);
    const isStale = this.isStale(nowNs);
    this.referenceShare = isStale ? 0 : this.measuredShare(rules);
    const estimateNs = isStale ? 0 : this.read('estimateNs');
    // Without reference flows, only the lowest rate is known to be safe.
    if (isStale) this.safeUtilGbps = rMinGbps;
    if (periods > 0) {
      this.steppedNs += periods * refPeriodNs;
      if (estimateNs > 0) this.noteTail(estimateNs);
      if (estimateNs > targetNs && !this.isIdle) this.fall(isPaper ? FALL_PAPER : FALL, rMinGbps, isPaper);
      // Without an estimate, there is no reason to believe that more is safe.
      else if (estimateNs > 0 && !this.isIdle) this.safeUtilGbps += STEP_GBPS * Math.min(periods, MAX_STEPS);
      if (estimateNs > 0 && estimateNs <= targetNs) this.metNs = nowNs;
    }
    this.safeUtilGbps = Math.min(Math.max(this.safeUtilGbps, rMinGbps), maxGbps);
    if (this.safeUtilGbps > rMinGbps) this.metNs = nowNs;
    if (this.metNs === nowNs) this.isUnmet = false;
    // Without an estimate, it is unknown whether the target is met.
    else if (estimateNs > targetNs && nowNs - this.metNs > UNMET_PERIODS * refPeriodNs) this.isUnmet = true;
  }

  /** The part of the link that reference flows take. */
  private measuredShare({ referenceWireBytes, maxGbps }: RateRules): number {
    const gbps = this.read('probesPerS') * referenceWireBytes * 8e-9;
    return gbps === 0 ? 0 : gbps / (this.members.linkGbps || maxGbps || Number.POSITIVE_INFINITY);
  }

  /** Keeps an estimate and its receiver for display. @param tailNs 0: no estimate */
  private noteTail(tailNs: number): void {
    const { worst, worstGid, members } = this;
    this.tailNs = tailNs;
    for (let i = 0; i < worst.length; i++) {
      const word = tailNs > 0 ? worstGid[i].of(members.device) : 0;
      if (word === worst[i]) continue;
      worst[i] = word;
      this.isWorstNew = true;
    }
  }

  /** Whether the agent has measured no latency for STALE_NS. */
  private isStale(nowNs: number): boolean {
    const probes = this.read('probes');
    if (probes !== this.probes || !(nowNs >= this.probedNs)) [this.probes, this.probedNs] = [probes, nowNs];
    return nowNs - this.probedNs > STALE_NS;
  }

  private fall(part: number, rMinGbps: number, isPaper: boolean): void {
    this.safeUtilGbps = Math.max(this.safeUtilGbps * part, rMinGbps);
    // The estimate belongs to the previous rate, so the reference flows begin a new window.
    if (isPaper) return;
    this.write('estimateNs', 0);
    this.write('falls', this.read('falls') + 1);
  }

  private grant(
    rules: RateRules,
    hasLatency: boolean,
    { all, maxGbps }: { readonly all: number; readonly maxGbps: number },
    changed: (member: number) => void,
  ): void {
    const { demand, members, safeUtilGbps } = this;
    const { tenants } = members;
    const held = rules.isPaper ? null : this.heldBack();
    const heldAll = held === null ? all : held.weight + this.read('readWeight');
    const tokenBytes = this.chunkOf(rules, hasLatency);
    // Without bandwidth applications, only the message rate of the device is shared.
    const mmps = demand.sendsBulk ? rules.qpMmps : rules.maxMmps;
    const messageBytes = mmps > 0 ? (rules.maxGbps * 1e3) / 8 / mmps : 0;
    const mayBeFree = !demand.sendsBulk && !hasLatency && !rules.limitsMessages;
    const isFree = safeUtilGbps === 0 || mayBeFree;
    if (this.parts.length < tenants.memberLimit) this.parts = new Float64Array(2 * tenants.memberLimit);
    // What a latency application may send, even if all others are latency applications as well.
    const shares = all + demand.latencyWeight;
    const shown = this.shown(shares > 0 && hasLatency ? maxGbps / shares : UNPACED_GBPS);
    for (let at = 0; at < tenants.firstOf(tenants.length); at++) {
      const member = tenants.memberAt(at);
      const weight = demand.of[member];
      // A member with nothing to send is granted what it would get, but takes nothing from the others.
      const own = held === null ? weight : weight * (this.partOf.of(member) / held.mostPart);
      const part = weight > 0 ? own / heldAll : 1 / (all + 1);
      const rateGbps = isFree ? UNPACED_GBPS : part * safeUtilGbps;
      // A new SafeUtil alone is not announced: it changes all the time, and members read it when they need it.
      const isNews = part !== this.parts[member] || (this.rateGbps.of(member) === UNPACED_GBPS) !== isFree;
      this.parts[member] = part;
      this.rateGbps.set(member, rateGbps);
      const hasNewToken = this.tokenBytes.set(member, tokenBytes);
      const hasNewPrice = this.messageBytes.set(member, messageBytes);
      for (const [column, value] of shown) column.set(member, value);
      if (isNews || this.isWorstNew) this.nameWorst(member);
      if (isNews || hasNewToken || hasNewPrice) changed(member);
    }
    this.isWorstNew = false;
  }

  private nameWorst(member: number): void {
    for (let i = 0; i < this.worst.length; i++) this.worstGid[i].set(member, this.worst[i]);
  }

  /**
   * The total weight of the members if those count less whose receivers allow less than those of others, which need not
   * give up their shares for them. Null: there are no such members.
   */
  private heldBack(): { readonly weight: number; readonly mostPart: number } | null {
    const { demand, partOf } = this;
    const { tenants } = this.members;
    let [weight, mostPart, leastPart] = [0, 0, 1];
    for (let at = 0; at < tenants.firstOf(tenants.length); at++) {
      const member = tenants.memberAt(at);
      if (demand.of[member] === 0) continue;
      weight += demand.of[member] * partOf.of(member);
      mostPart = Math.max(mostPart, partOf.of(member));
      leastPart = Math.min(leastPart, partOf.of(member));
    }
    return mostPart > leastPart ? { weight: weight / mostPart, mostPart } : null;
  }

  /** The state of the device as members see it. */
  private shown(weightGbps: number): [GrantColumn, number][] {
    const { device, safeUtilGbps, isUnmet, referenceShare } = this;
    return [
      [device.get('weightGbps')!, weightGbps],
      [device.get('safeUtilGbps')!, safeUtilGbps],
      [device.get('rMinGbps')!, this.read('rMinGbps')],
      [device.get('tailNs')!, this.tailNs],
      [device.get('isUnmet')!, isUnmet ? 1 : 0],
      [device.get('referenceShare')!, referenceShare],
    ];
  }

  private chunkOf({ chunkBytes, bulkChunkBytes, chunks }: RateRules, hasLatency: boolean): number {
    if (!hasLatency) return bulkChunkBytes;
    return chunkFor(chunks, this.safeUtilGbps, chunkBytes);
  }

  describe(tenant: number): Description {
    const { tenants } = this.members;
    let [rateGbps, latency] = [0, 0];
    for (let at = tenants.firstOf(tenant); at < tenants.firstOf(tenant + 1); at++) {
      const member = tenants.memberAt(at);
      if (this.demand.of[member] > 0) rateGbps += this.rateGbps.of(member);
      latency += this.demand.weights.latencyOf(member);
    }
    if (rateGbps === 0 && latency === 0) return {};
    const { state } = this;
    const isPaced = rateGbps > 0 && rateGbps < UNPACED_GBPS;
    return {
      ...(isPaced && { rateGbps }),
      why: ratesText(state) + tailText(state),
      safeUtilGbps: state.safeUtilGbps,
      rMinGbps: state.rMinGbps,
      estimateUs: state.tailNs / 1e3,
      ...(state.worstPeer !== null && { worstPeer: state.worstPeer }),
      referenceShare: state.referenceShare,
    };
  }

  private get state(): DeviceState {
    const { safeUtilGbps, targetNs, tailNs, isUnmet, worst, referenceShare } = this;
    const worstPeer = worstPeerOf(worst, 0);
    const rMinGbps = this.read('rMinGbps');
    return { safeUtilGbps, rMinGbps, targetNs, tailNs, isUnmet, worstPeer, referenceShare };
  }
}

/** The ruler of justitia, which grants each member its share of SafeUtil. */
export const rates: Ruler<RateRules> = {
  name: 'justitia',
  reports: RATE_REPORTS,
  grants: RATE_GRANTS,
  rules: justitiaOptions.transform((options) => rateRulesOf(options, null)),
  rulesOn: (nic) => justitiaOptions.transform((options) => rateRulesOf(options, nic)),
  begin: (members) => new Rates(members),
};
