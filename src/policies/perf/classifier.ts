/**
 * Classifies the application of each context (PeRF, section 3.3) by mean message size and longest queue within a
 * window (kit/classifier.ts), each the maximum over its queue pairs, for each device through which its data leaves. The
 * first request of a queue pair decides at once; later changes need two windows that agree. The results are in the
 * context's page of counters.
 */
import { type MemberPage, WRITTEN_NS } from '../../coordinator/member-table.ts';
import type { MemberColumns } from '../../coordinator/ruler.ts';
import type { Actions, ContextView, QpView } from '../../shim/policy.ts';
import { fitColumn } from '../../shim/tables.ts';
import { ISO_TRAFFIC_UNDECLARED } from '../../verbs/constants.ts';
import { Hysteresis, LARGE_BYTES, SMALL, TrafficWindows } from '../kit/classifier.ts';
import { RETH_BYTES, ROCE } from '../kit/wire.ts';
import * as M from './columns.ts';
import { LinkRate } from './link-rate.ts';
import { master } from './master.ts';
import type { Reader, Readers } from './read-agent.ts';
import { slots } from './slot-rotation.ts';
import { type ActiveTenants, GrantedTenants } from './wait-pacer.ts';

/** Delay from the first request to the first sample. It doubles with each sample, up to the sample period. */
export const FIRST_SAMPLE_NS = 10_000;

/** Samples of what a tenant sends that decide its class, except with `paper`. */
const DEMAND_SAMPLES = 8;

/** The options of perf that the classifier reads. */
export interface ClassifierOptions {
  readonly thMApp: number;
  readonly samplePeriodNs: number;
  readonly windowNs: number;
  readonly demandNs: number;
  readonly paper: boolean;
}

// The opcodes that a queue pair posts, in two bits per inspection; a byte holds the last four inspections.
const SENDS = 1;
const READS = 2;
const ALL_SENDS = 0x55;
const ALL_READS = 0xaa;

/** The active tenants, for queue pairs in turns, which may fill the link. */
class FillingTenants extends GrantedTenants {
  get mayFill(): boolean {
    return true;
  }
}

/** The activity of a context on one device through which its data leaves. */
export class EgressDevice {
  /** The name of its own device, or the GID of a peer's. */
  readonly device: string;
  /** What reports to a peer's device; null: its own, where the page is. */
  readonly reader: Reader | null;
  readonly page: MemberPage;
  /** What it reports to perf's master, and what the master grants. */
  readonly master: MemberColumns;
  /** What it reports of its tenant's slot, and what it is granted. */
  readonly slots: MemberColumns;
  /** Class and arity at the last decision. A change affects other members at once. */
  lastKind = 2 * M.IDLE;
  /** The active tenants; `filling` is for turns that need no gaps. */
  readonly tenants: ActiveTenants;
  readonly filling: ActiveTenants;
  /** Delays the changes of its class, which is in the page. */
  readonly hysteresis = new Hysteresis();
  /** The rate is not sampled yet. */
  isProvisional = true;
  /** What it takes of the link. */
  readonly rate: LinkRate;
  // State of the current sample.
  activeQps = 0;
  largeQps = 0;
  meanBytes = 0.5;
  queueLength = 0.5;
  awaitsAnswers = 0;
  /** Wire bytes since the last sample. */
  wireBytes = 0.5;
  /** Requests outstanding now, and 1 if a queue pair of small messages rests. */
  outstanding = 0;
  rests = 0;
  /** The highest class of its queue pairs, and the highest that one declares (classes have the numbers of ISO_TRAFFIC_*). */
  verdict = M.IDLE;
  declared = M.IDLE;
  /** A declaration has changed, so the next sample sets the class at once. */
  isRelabelled = false;

  /** @param linkGbps 0: unknown */
  constructor(device: string, page: MemberPage, linkGbps: number, reader: Reader | null = null) {
    this.device = device;
    this.rate = new LinkRate(linkGbps);
    this.reader = reader;
    this.page = page;
    this.master = page.columns(master);
    this.slots = page.columns(slots);
    this.tenants = new GrantedTenants(this.master, this.slots);
    this.filling = new FillingTenants(this.master, this.slots);
  }

  get isSplit(): boolean {
    return this.master.grants[M.SPLIT] === 1;
  }

  /** Its class, combined with whether it has several queue pairs. */
  get kind(): number {
    const { reports } = this.master;
    return 2 * reports[M.CLASS] + (reports[M.ACTIVE_QPS] > 1 ? 1 : 0);
  }

  /** Begins a sample. */
  clear(): void {
    this.activeQps = 0;
    this.largeQps = 0;
    this.meanBytes = 0;
    this.queueLength = 0;
    this.awaitsAnswers = 0;
    this.wireBytes = 0;
    this.outstanding = 0;
    this.rests = 0;
    this.verdict = M.IDLE;
    this.declared = M.IDLE;
  }

  /** Adds the class, mean message, queue length and wire bytes of a queue pair. */
  add(of: number, meanBytes: number, queue: number, wireBytes: number): void {
    this.verdict = Math.max(this.verdict, of);
    this.activeQps++;
    if (meanBytes >= LARGE_BYTES) this.largeQps++;
    this.meanBytes = Math.max(this.meanBytes, meanBytes);
    this.queueLength = Math.max(this.queueLength, queue);
    this.wireBytes += wireBytes;
  }
}

/** A context, its queue pairs and its egress devices. */
export class Member {
  readonly context: ContextView;
  /** Its own device first, then those through which the data that it READs leaves. */
  readonly egressDevices: EgressDevice[];
  /** Its READs from peers. */
  readonly readers: Readers;
  /** The device through which its large messages leave. */
  main: EgressDevice;
  readonly qps: QpView[] = [];
  /** Wire overhead of a small message. */
  readonly headerBytes: number;
  /** Time to the next sample; 0 if none is planned. */
  periodNs = 0;
  lastSampleNs = 0;
  /** The time at which the next sample is due. */
  nextSampleNs = 0.5;
  /** Whether all that it sends stays in its device. If it also sends by the link, only that counts. */
  loops = false;

  constructor(context: ContextView, page: MemberPage, readers: Readers) {
    this.context = context;
    this.readers = readers;
    this.main = new EgressDevice(context.device, page, context.nic?.linkGbps ?? 0);
    this.egressDevices = [this.main];
    this.headerBytes = (context.nic?.headerBytes ?? ROCE.headerBytes) + RETH_BYTES;
  }

  get home(): EgressDevice {
    return this.egressDevices[0];
  }

  /** The page of `main`. */
  get page(): MemberPage {
    return this.main.page;
  }

  /** Whether the rate on `main` is not sampled yet. */
  get isProvisional(): boolean {
    return this.main.isProvisional;
  }

  /** Queue pairs that may send at a time, by the strictest of its devices; 0 for all. */
  get allowance(): number {
    let least = 0;
    for (const { master } of this.egressDevices) {
      const allow = master.grants[M.QNUM_ALLOW];
      if (allow > 0 && (least === 0 || allow < least)) least = allow;
    }
    return least;
  }
}

/** Classifies the contexts and queue pairs of a device. */
export class Classifier {
  /** What each queue pair sends. */
  readonly windows: TrafficWindows;
  private options: ClassifierOptions;
  /** When each queue pair was last known to send. */
  private lastSentNs: Float64Array = new Float64Array(64);
  /** 1 if the opcode of its requests was not inspected since the last sample. */
  uninspected: Uint8Array = new Uint8Array(64);
  /** SENDS or READS by inspection. */
  private inspections: Uint8Array = new Uint8Array(64);
  /** ISO_TRAFFIC_*, as declared. */
  private traffic: Uint8Array = new Uint8Array(64);
  /** Egress of its READ data. */
  private readonly readEgress: (EgressDevice | undefined)[] = [];

  constructor(options: ClassifierOptions) {
    this.options = options;
    this.windows = new TrafficWindows(windowsOptions(options));
  }

  /** Applies new options. All windows restart, as their length may have changed. */
  configure(options: ClassifierOptions): void {
    this.options = options;
    this.windows.configure(windowsOptions(options));
  }

  /** Forgets for how long a member's windows have indicated other classes than its pages have. */
  resetCandidates(member: Member): void {
    for (const place of member.egressDevices) place.hysteresis.reset();
  }

  /** Adds a new queue pair. */
  add(member: Member, qp: QpView): void {
    this.windows.join(qp);
    this.uninspected = fitColumn(this.uninspected, qp.index);
    this.uninspected[qp.index] = 1;
    this.inspections = fitColumn(this.inspections, qp.index);
    this.inspections[qp.index] = 0;
    this.traffic = fitColumn(this.traffic, qp.index);
    this.traffic[qp.index] = qp.labels.traffic;
    this.lastSentNs = fitColumn(this.lastSentNs, qp.index);
    this.lastSentNs[qp.index] = Number.NEGATIVE_INFINITY;
    this.readEgress[qp.index] = undefined;
    member.qps.push(qp);
  }

  /** Notes the labels of a queue pair. Returns whether it declares another kind of traffic than before. */
  relabel(member: Member, { index, labels }: QpView): boolean {
    if (this.traffic[index] === labels.traffic) return false;
    this.traffic[index] = labels.traffic;
    for (const place of member.egressDevices) place.isRelabelled = true;
    return true;
  }

  remove(member: Member, qp: QpView): void {
    const at = member.qps.findIndex(({ handle }) => handle === qp.handle);
    if (at >= 0) member.qps.splice(at, 1);
  }

  /** Records what a queue pair posts. `answers` is the egress of its READ data, or undefined if there is no READ. */
  inspect(qp: QpView, answers: EgressDevice | undefined): void {
    const { index } = qp;
    this.inspections[index] = (this.inspections[index] << 2) | (answers === undefined ? SENDS : READS);
    if (answers !== undefined) this.readEgress[index] = answers;
    this.uninspected[index] = 0;
  }

  /** The egress of a queue pair's large messages; if it both sends and READs, a device that splits them. */
  egressOf(member: Member, qp: QpView): EgressDevice {
    const answers = this.readEgress[qp.index];
    if (answers === undefined) return member.home;
    if ((this.inspections[qp.index] & ALL_READS) === 0) return member.home;
    if (this.onlyReads(qp)) return answers;
    return answers.isSplit && !member.home.isSplit ? answers : member.home;
  }

  /** Whether all recently inspected requests return data from its peer. */
  onlyReads({ index }: QpView): boolean {
    const looks = this.inspections[index];
    return (looks & ALL_READS) !== 0 && (looks & ALL_SENDS) === 0;
  }

  /** Whether its messages leave by this device. Requests of READs are small messages of its own device. */
  private leavesBy(member: Member, qp: QpView, place: EgressDevice, isLarge: boolean): boolean {
    if (this.loops(qp) !== member.loops) return false;
    const reads = (this.inspections[qp.index] & ALL_READS) !== 0;
    if (reads && place === (this.readEgress[qp.index] ?? member.home)) return true;
    return place === member.home && (!isLarge || !this.onlyReads(qp));
  }

  /** Whether the messages of a queue pair stay in its device. With `paper`, all count as leaving by the link. */
  loops({ dgid, sgid }: QpView): boolean {
    return !this.options.paper && dgid !== '' && dgid === sgid;
  }

  /** Whether a queue pair's messages stay in the device while others of its context take part in the link. */
  isAside(member: Member, qp: QpView): boolean {
    return !member.loops && this.loops(qp);
  }

  /** Classifies a queue pair by its first `count` requests, the largest of which has `bytes`. */
  recordFirst(member: Member, qp: QpView, bytes: number, count: number): void {
    const isLarge = bytes >= LARGE_BYTES;
    this.chooseWay(member, this.loops(qp));
    const verdict = this.declaredOr(qp.index, this.windows.first(qp, bytes, count));
    for (const place of member.egressDevices) {
      if (!this.leavesBy(member, qp, place, isLarge)) continue;
      const { reports } = place.master;
      reports[M.ACTIVE_QPS]++;
      reports[M.MEAN_BYTES] = Math.max(reports[M.MEAN_BYTES], bytes);
      reports[M.QUEUE_LENGTH] = Math.max(reports[M.QUEUE_LENGTH], count);
      if (isLarge) reports[M.LARGE_QPS]++;
      if (reports[M.CLASS] === M.IDLE) {
        place.isProvisional = true;
        place.rate.reset();
      }
      // It may need all of the link until something else is known.
      if (verdict === M.BANDWIDTH) reports[M.DEMAND_GBPS] = place.rate.linkGbps;
      place.declared = Math.max(place.declared, this.traffic[qp.index]);
      reports[M.CLASS] = Math.max(reports[M.CLASS], verdict);
    }
    chooseMain(member);
  }

  /** The first request that leaves by the link ends what a context reports of its device. */
  private chooseWay(member: Member, loops: boolean): void {
    const { reports } = member.home.master;
    if (member.loops === loops || (loops && reports[M.CLASS] !== M.IDLE)) return;
    reports.fill(0);
    member.loops = loops;
    reports[M.LOOPS] = loops ? 1 : 0;
  }

  /** The class that a queue pair declares, otherwise the one that its messages and its queue show. */
  private declaredOr(index: number, shown: number): number {
    return this.traffic[index] !== ISO_TRAFFIC_UNDECLARED ? this.traffic[index] : shown;
  }

  /** Plans the next sample and returns when it is due. */
  planSample(member: Member, nowNs: number): number {
    const { samplePeriodNs, demandNs, paper } = this.options;
    const next = member.periodNs === 0 ? FIRST_SAMPLE_NS : 2 * member.periodNs;
    member.periodNs = Math.min(next, samplePeriodNs, paper ? Number.POSITIVE_INFINITY : demandNs);
    member.nextSampleNs = nowNs + member.periodNs;
    return member.nextSampleNs;
  }

  /** Samples all queue pairs. Returns false if nothing was sent within the window and nothing is outstanding. */
  sample(member: Member, nowNs: number, out: Actions): boolean {
    const part = this.windows.partAt(nowNs);
    let active = 0;
    for (const place of member.egressDevices) place.clear();
    let inLoops = 0;
    for (const qp of member.qps) {
      if (!this.sampleQp(member, qp, part, nowNs, out)) continue;
      active++;
      if (this.loops(qp)) inLoops++;
    }
    const spanNs = nowNs - member.lastSampleNs;
    member.lastSampleNs = nowNs;
    for (const place of member.egressDevices) {
      if (place.verdict === M.IDLE && place.rests === 1) place.add(M.DELAY, 0, 0, 0);
      report(place, nowNs, spanNs, this.options);
      applyVerdict(place, part);
    }
    chooseMain(member);
    if (inLoops === active && inLoops > 0) this.chooseWay(member, true);
    if (active === 0) member.periodNs = 0;
    return active > 0;
  }

  /**
   * Whether a queue pair that sends nothing at present still counts for those that it may wait behind: it sent small
   * messages within `windowNs`.
   */
  private rests(member: Member, qp: QpView, nowNs: number): boolean {
    const { windowNs, paper } = this.options;
    if (paper || qp.broken || nowNs - this.lastSentNs[qp.index] >= windowNs) return false;
    if (this.windows.kindOf(qp) !== SMALL) return false;
    for (const place of member.egressDevices) if (this.leavesBy(member, qp, place, false)) place.rests = 1;
    return true;
  }

  /** Adds a queue pair to its egress devices. Returns false if there is nothing to add. */
  private sampleQp(member: Member, qp: QpView, part: number, nowNs: number, out: Actions): boolean {
    const { windows } = this;
    const { index } = qp;
    this.uninspected[index] = 1;
    const bytes = windows.newBytesOf(qp);
    const headers = windows.newMessagesOf(qp) * member.headerBytes;
    const outstanding = out.outstanding(qp);
    if (headers > 0 || outstanding > 0) this.lastSentNs[index] = nowNs;
    const shown = windows.sample(qp, part, outstanding);
    if (shown === M.IDLE) return this.rests(member, qp, nowNs);
    const mean = windows.meanOf(qp);
    const queue = windows.longestQueueOf(qp);
    const isLarge = mean >= LARGE_BYTES;
    const of = this.declaredOr(index, shown);
    for (const place of member.egressDevices) {
      if (!this.leavesBy(member, qp, place, isLarge)) continue;
      place.declared = Math.max(place.declared, this.traffic[qp.index]);
      place.outstanding += outstanding;
      // A READ sends only its request; the peer sends the data.
      const isRequest = place === member.home && this.readEgress[index] !== place && this.onlyReads(qp);
      place.add(of, mean, queue, isRequest ? headers : bytes + headers);
      if (!isLarge && this.onlyReads(qp)) place.awaitsAnswers = 1;
    }
    return true;
  }
}

/** What the windows need of the options. */
function windowsOptions({ windowNs, thMApp, demandNs, paper }: ClassifierOptions) {
  return { windowNs: paper ? windowNs : Math.min(windowNs, DEMAND_SAMPLES * demandNs), longQueue: thMApp };
}

function report(place: EgressDevice, nowNs: number, spanNs: number, options: ClassifierOptions): void {
  const { page, activeQps, largeQps, meanBytes, queueLength, wireBytes, rate } = place;
  const { reports } = place.master;
  if (options.paper) rate.gbps = spanNs > 0 ? Math.max(0, (8 * wireBytes) / spanNs) : 0;
  else rate.add(wireBytes, spanNs, place.outstanding > 0, options.demandNs);
  reports[M.WIRE_GBPS] = rate.gbps;
  reports[M.DEMAND_GBPS] = place.verdict === M.BANDWIDTH ? rate.demandGbps : rate.gbps;
  reports[M.ACTIVE_QPS] = activeQps;
  reports[M.LARGE_QPS] = largeQps;
  reports[M.MEAN_BYTES] = meanBytes;
  reports[M.QUEUE_LENGTH] = queueLength;
  reports[M.AWAITS_ANSWERS] = place.awaitsAnswers;
  page.counters[WRITTEN_NS] = nowNs;
}

/** Applies a verdict at once if it is idle or the first on the rate, otherwise if it lasts longer than a part. */
function applyVerdict(place: EgressDevice, part: number): void {
  const { reports } = place.master;
  const isAtOnce = place.isProvisional || place.isRelabelled;
  reports[M.CLASS] = place.hysteresis.settle(reports[M.CLASS], place.verdict, part, isAtOnce);
  // At a peer's device, the decision on the first report has yet to arrive.
  place.isProvisional = place.reader?.isAwaiting ?? false;
  place.isRelabelled = false;
}

/**
 * Selects the member's own device, unless its large messages leave only through another one. The member demands no slot
 * on the device that it leaves.
 */
function chooseMain(member: Member): void {
  const { main, home, egressDevices } = member;
  const isLarge = (place: EgressDevice) => place.master.reports[M.CLASS] === M.BANDWIDTH;
  const next = isLarge(home) ? home : (egressDevices.find(isLarge) ?? home);
  if (next === main) return;
  main.slots.reports[M.SLOT_DEMAND] = M.NO_DEMAND;
  member.main = next;
}
