/**
 * Classifies the application of each context (PeRF, section 3.3) by mean message size and longest queue within a
 * window, each the maximum over its queue pairs. The first request of a queue pair decides at once; later changes
 * need two windows that agree. The results are in the context's page of counters.
 */
import { type MemberPage, WRITTEN_NS } from '../../coordinator/member-table.ts';
import type { MemberColumns } from '../../coordinator/ruler.ts';
import { BYTES, SEEN } from '../../shim/counters.ts';
import type { Actions, ContextView, QpView } from '../../shim/policy.ts';
import { fitColumn } from '../../shim/tables.ts';
import { ISO_TRAFFIC_UNDECLARED } from '../../verbs/constants.ts';
import { RETH_BYTES, ROCE } from '../kit/wire.ts';
import * as M from './columns.ts';
import { master } from './master.ts';
import type { Reader, Readers } from './read-agent.ts';
import { slots } from './slot-rotation.ts';
import { type ActiveTenants, GrantedTenants } from './wait-pacer.ts';

/** Minimum mean message size of a bandwidth application. */
export const LARGE_BYTES = 1024;
/** Parts of a window, which slides by one part. Columns have one more entry, for the last sample. */
const PARTS = 8;
const STRIDE = PARTS + 1;
/** Delay from the first request to the first sample. It doubles with each sample, up to the sample period. */
export const FIRST_SAMPLE_NS = 10_000;

/** Kinds of queue pairs. */
export const UNKNOWN = 0;
export const SMALL = 1;
export const LARGE = 2;

/** The options of perf that the classifier reads. */
export interface ClassifierOptions {
  readonly thMApp: number;
  readonly samplePeriodNs: number;
  readonly windowNs: number;
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
  /** The class that the window indicates while the page has another, and the part where this began. */
  candidate = M.IDLE;
  candidatePart = 0;
  /** The rate is not sampled yet. */
  isProvisional = true;
  // State of the current sample.
  activeQps = 0;
  largeQps = 0;
  meanBytes = 0.5;
  queueLength = 0.5;
  awaitsAnswers = 0;
  /** Wire bytes since the last sample. */
  wireBytes = 0.5;
  /** The highest class of its queue pairs, and the highest that one declares (classes have the numbers of ISO_TRAFFIC_*). */
  verdict = M.IDLE;
  declared = M.IDLE;
  /** A declaration has changed, so the next sample sets the class at once. */
  isRelabelled = false;

  constructor(device: string, page: MemberPage, reader: Reader | null = null) {
    this.device = device;
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
  /** Number of the current part of the window, since time 0. */
  part = -1;

  constructor(context: ContextView, page: MemberPage, readers: Readers) {
    this.context = context;
    this.readers = readers;
    this.main = new EgressDevice(context.device, page);
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
  private readonly options: ClassifierOptions;
  private partNs = 0;
  /** By queue pair. */
  kinds: Uint8Array = new Uint8Array(64);
  /** 1 if the opcode of its requests was not inspected since the last sample. */
  uninspected: Uint8Array = new Uint8Array(64);
  /** SENDS or READS by inspection. */
  private inspections: Uint8Array = new Uint8Array(64);
  /** ISO_TRAFFIC_*, as declared. */
  private traffic: Uint8Array = new Uint8Array(64);
  /** Egress of its READ data. */
  private readonly readEgress: (EgressDevice | undefined)[] = [];
  /** By queue pair and part: bytes and messages at the part's start, and the longest queue during it. */
  private bytesAt: Float64Array = new Float64Array(64 * STRIDE);
  private messagesAt: Float64Array = new Float64Array(64 * STRIDE);
  private longestQueueAt: Float64Array = new Float64Array(64 * STRIDE);

  constructor(options: ClassifierOptions) {
    this.options = options;
    this.configure(options);
  }

  /** Applies new options. */
  configure({ windowNs }: ClassifierOptions): void {
    this.partNs = windowNs / PARTS;
  }

  /** Restarts a member's window at its last sample, as its length may have changed. */
  restartWindow(member: Member): void {
    member.part = -1;
    for (const place of member.egressDevices) place.candidate = M.IDLE;
  }

  /** Adds a new queue pair. */
  add(member: Member, qp: QpView): void {
    const from = qp.index * STRIDE;
    const last = from + PARTS;
    this.kinds = fitColumn(this.kinds, qp.index);
    this.bytesAt = fitColumn(this.bytesAt, last);
    this.messagesAt = fitColumn(this.messagesAt, last);
    this.longestQueueAt = fitColumn(this.longestQueueAt, last);
    for (const column of [this.bytesAt, this.messagesAt, this.longestQueueAt]) column.fill(0, from, last + 1);
    this.kinds[qp.index] = UNKNOWN;
    this.uninspected = fitColumn(this.uninspected, qp.index);
    this.uninspected[qp.index] = 1;
    this.inspections = fitColumn(this.inspections, qp.index);
    this.inspections[qp.index] = 0;
    this.traffic = fitColumn(this.traffic, qp.index);
    this.traffic[qp.index] = qp.labels.traffic;
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
    const reads = (this.inspections[qp.index] & ALL_READS) !== 0;
    if (reads && place === (this.readEgress[qp.index] ?? member.home)) return true;
    return place === member.home && (!isLarge || !this.onlyReads(qp));
  }

  /** Classifies a queue pair by its first `count` requests, the largest of which has `bytes`. */
  recordFirst(member: Member, qp: QpView, bytes: number, count: number): void {
    const isLarge = bytes >= LARGE_BYTES;
    this.kinds[qp.index] = isLarge ? LARGE : SMALL;
    const verdict = this.classOf(qp.index, bytes, count);
    for (const place of member.egressDevices) {
      if (!this.leavesBy(member, qp, place, isLarge)) continue;
      const { reports } = place.master;
      reports[M.ACTIVE_QPS]++;
      reports[M.MEAN_BYTES] = Math.max(reports[M.MEAN_BYTES], bytes);
      reports[M.QUEUE_LENGTH] = Math.max(reports[M.QUEUE_LENGTH], count);
      if (isLarge) reports[M.LARGE_QPS]++;
      if (reports[M.CLASS] === M.IDLE) place.isProvisional = true;
      place.declared = Math.max(place.declared, this.traffic[qp.index]);
      reports[M.CLASS] = Math.max(reports[M.CLASS], verdict);
    }
    chooseMain(member);
  }

  /** The class that a queue pair declares, otherwise the one that its messages and its queue show. */
  private classOf(index: number, bytes: number, queue: number): number {
    if (this.traffic[index] !== ISO_TRAFFIC_UNDECLARED) return this.traffic[index];
    if (bytes >= LARGE_BYTES) return M.BANDWIDTH;
    return queue > this.options.thMApp ? M.MESSAGES : M.DELAY;
  }

  /** Plans the next sample and returns when it is due. */
  planSample(member: Member, nowNs: number): number {
    const { samplePeriodNs } = this.options;
    const next = member.periodNs === 0 ? FIRST_SAMPLE_NS : 2 * member.periodNs;
    member.periodNs = Math.min(next, samplePeriodNs);
    member.nextSampleNs = nowNs + member.periodNs;
    return member.nextSampleNs;
  }

  /** Samples all queue pairs. Returns false if nothing was sent within the window and nothing is outstanding. */
  sample(member: Member, nowNs: number, out: Actions): boolean {
    this.advanceWindow(member, nowNs);
    let active = 0;
    for (const place of member.egressDevices) place.clear();
    for (const qp of member.qps) if (this.sampleQp(member, qp, out)) active++;
    const spanNs = nowNs - member.lastSampleNs;
    member.lastSampleNs = nowNs;
    for (const place of member.egressDevices) this.report(member, place, nowNs, spanNs);
    chooseMain(member);
    if (active === 0) member.periodNs = 0;
    return active > 0;
  }

  /** Adds a queue pair to its egress devices. Returns false if there is nothing to add. */
  private sampleQp(member: Member, qp: QpView, out: Actions): boolean {
    const { index, counts } = qp;
    this.uninspected[index] = 1;
    const last = index * STRIDE + PARTS;
    const bytes = counts[BYTES] - this.bytesAt[last];
    const headers = (counts[SEEN] - this.messagesAt[last]) * member.headerBytes;
    const mean = this.meanOf(qp, member.part, out.outstanding(qp));
    if (mean < 0) return false;
    const queue = this.longestQueueOf(index);
    const isLarge = mean >= LARGE_BYTES;
    const of = this.classOf(qp.index, mean, queue);
    for (const place of member.egressDevices) {
      if (!this.leavesBy(member, qp, place, isLarge)) continue;
      place.declared = Math.max(place.declared, this.traffic[qp.index]);
      // A READ sends only its request; the peer sends the data.
      const isRequest = place === member.home && this.readEgress[index] !== place && this.onlyReads(qp);
      place.add(of, mean, queue, isRequest ? headers : bytes + headers);
      if (!isLarge && this.onlyReads(qp)) place.awaitsAnswers = 1;
    }
    return true;
  }

  private report(member: Member, place: EgressDevice, nowNs: number, spanNs: number): void {
    const { page, activeQps, largeQps, meanBytes, queueLength, wireBytes } = place;
    const { reports } = place.master;
    reports[M.WIRE_GBPS] = spanNs > 0 ? Math.max(0, (8 * wireBytes) / spanNs) : 0;
    reports[M.ACTIVE_QPS] = activeQps;
    reports[M.LARGE_QPS] = largeQps;
    reports[M.MEAN_BYTES] = meanBytes;
    reports[M.QUEUE_LENGTH] = queueLength;
    reports[M.AWAITS_ANSWERS] = place.awaitsAnswers;
    page.counters[WRITTEN_NS] = nowNs;
    this.applyVerdict(place, member.part, place.verdict);
  }

  /** Begins the parts that are due, which include what was sent since the last sample. */
  private advanceWindow(member: Member, nowNs: number): void {
    const part = Math.floor(nowNs / this.partNs);
    for (let p = Math.max(member.part + 1, part - PARTS + 1); p <= part; p++) {
      for (const { index } of member.qps) {
        const at = index * STRIDE + (p % PARTS);
        this.bytesAt[at] = this.bytesAt[index * STRIDE + PARTS];
        this.messagesAt[at] = this.messagesAt[index * STRIDE + PARTS];
        this.longestQueueAt[at] = 0;
      }
    }
    member.part = part;
  }

  /** Mean message size of a queue pair within the window; -1 if nothing was sent and nothing is outstanding. */
  private meanOf(qp: QpView, part: number, outstanding: number): number {
    const { index, counts } = qp;
    const from = index * STRIDE;
    const current = from + (part % PARTS);
    const oldest = from + ((part + 1) % PARTS);
    this.longestQueueAt[current] = Math.max(this.longestQueueAt[current], outstanding);
    this.bytesAt[from + PARTS] = counts[BYTES];
    this.messagesAt[from + PARTS] = counts[SEEN];
    const messages = counts[SEEN] - this.messagesAt[oldest];
    if (messages === 0) {
      if (outstanding === 0 || qp.broken) return -1;
      return this.kinds[index] === LARGE ? LARGE_BYTES : 0;
    }
    const mean = (counts[BYTES] - this.bytesAt[oldest]) / messages;
    this.kinds[index] = mean >= LARGE_BYTES ? LARGE : SMALL;
    return mean;
  }

  private longestQueueOf(index: number): number {
    let longest = 0;
    for (let p = 0; p < PARTS; p++) longest = Math.max(longest, this.longestQueueAt[index * STRIDE + p]);
    return longest;
  }

  /** Applies a verdict at once if it is idle or the first on the rate, otherwise if it lasts longer than a part. */
  private applyVerdict(place: EgressDevice, part: number, verdict: number): void {
    const { reports } = place.master;
    const known = reports[M.CLASS];
    if (verdict === known) {
      place.candidate = M.IDLE;
    } else if (verdict === M.IDLE || known === M.IDLE || place.isProvisional || place.isRelabelled) {
      reports[M.CLASS] = verdict;
      place.candidate = M.IDLE;
    } else if (place.candidate !== verdict) {
      place.candidate = verdict;
      place.candidatePart = part;
    } else if (part > place.candidatePart + 1) {
      reports[M.CLASS] = verdict;
      place.candidate = M.IDLE;
    }
    // At a peer's device, the decision on the first report has yet to arrive.
    place.isProvisional = place.reader?.isAwaiting ?? false;
    place.isRelabelled = false;
  }
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
