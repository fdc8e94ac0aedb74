/**
 * Classifies the application of each context (PeRF, section 3.3) by mean message size and longest queue within a
 * window, each the maximum over its queue pairs. The first request of a queue pair decides at once; later changes
 * need two windows that agree. The results are in the context's page of counters.
 */
import * as M from '../../coordinator/member-table.ts';
import { BYTES, SEEN } from '../../shim/counters.ts';
import type { Actions, ContextView, QpView } from '../../shim/policy.ts';
import { fitColumn } from '../../shim/tables.ts';
import { type ActiveTenants, GrantedTenants } from './wait-pacer.ts';

/** Minimum mean message size of a bandwidth application. */
export const LARGE_BYTES = 1024;
/** Parts of a window, which slides by one part. Columns have one more entry, for the last sample. */
const PARTS = 8;
const STRIDE = PARTS + 1;
/** Delay from the first request to the first sample. It doubles with each sample, up to the sample period. */
export const FIRST_SAMPLE_NS = 10_000;

/** Headers and gap of a RoCEv2 packet, and the extra header that names remote memory. */
const HEADER_BYTES = 82;
const RETH_BYTES = 16;

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

// What a queue pair posts, two bits per inspection; a byte holds the last four.
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
  readonly device: string;
  readonly page: M.MemberPage;
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

  constructor(device: string, page: M.MemberPage) {
    this.device = device;
    this.page = page;
    this.tenants = new GrantedTenants(page);
    this.filling = new FillingTenants(page);
  }

  get isSplit(): boolean {
    return this.page.grants[M.SPLIT] === 1;
  }

  /** Begins a sample. */
  clear(): void {
    this.activeQps = 0;
    this.largeQps = 0;
    this.meanBytes = 0;
    this.queueLength = 0;
    this.awaitsAnswers = 0;
    this.wireBytes = 0;
  }

  /** Adds the mean message, queue length and wire bytes of a queue pair. */
  add(meanBytes: number, queue: number, wireBytes: number): void {
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
  /** The device through which its large messages leave. */
  main: EgressDevice;
  readonly qps: QpView[] = [];
  /** Wire overhead of a small message. */
  readonly headerBytes: number;
  /** Time to the next sample; 0: none planned. */
  periodNs = 0;
  lastSampleNs = 0;
  /** When the next sample is due. */
  nextSampleNs = 0.5;
  /** Number of the current part of the window, since time 0. */
  part = -1;

  constructor(context: ContextView, page: M.MemberPage) {
    this.context = context;
    this.main = new EgressDevice(context.device, page);
    this.egressDevices = [this.main];
    this.headerBytes = (context.nic?.headerBytes ?? HEADER_BYTES) + RETH_BYTES;
  }

  get home(): EgressDevice {
    return this.egressDevices[0];
  }

  /** The page of `main`. */
  get page(): M.MemberPage {
    return this.main.page;
  }

  /** Whether the rate on `main` is not sampled yet. */
  get isProvisional(): boolean {
    return this.main.isProvisional;
  }

  /** Queue pairs that may send at a time, by the strictest of its devices; 0: all. */
  get allowance(): number {
    let least = 0;
    for (const { page } of this.egressDevices) {
      const allow = page.grants[M.QNUM_ALLOW];
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
  /** 1: the opcode of its requests was not inspected since the last sample. */
  uninspected: Uint8Array = new Uint8Array(64);
  /** SENDS or READS by inspection. */
  private inspections: Uint8Array = new Uint8Array(64);
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
    this.readEgress[qp.index] = undefined;
    member.qps.push(qp);
  }

  remove(member: Member, qp: QpView): void {
    const at = member.qps.findIndex(({ handle }) => handle === qp.handle);
    if (at >= 0) member.qps.splice(at, 1);
  }

  /** Records what a queue pair posts. `answers`: the egress of its READ data; undefined: no READ. */
  inspect(qp: QpView, answers: EgressDevice | undefined): void {
    const { index } = qp;
    this.inspections[index] = (this.inspections[index] << 2) | (answers === undefined ? SENDS : READS);
    if (answers !== undefined) this.readEgress[index] = answers;
    this.uninspected[index] = 0;
  }

  /** The egress of its large messages; if it both sends and READs, a device that splits them. */
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
    const verdict = this.verdict(bytes, count);
    for (const place of member.egressDevices) {
      if (!this.leavesBy(member, qp, place, isLarge)) continue;
      const { counters } = place.page;
      counters[M.ACTIVE_QPS]++;
      counters[M.MEAN_BYTES] = Math.max(counters[M.MEAN_BYTES], bytes);
      counters[M.QUEUE_LENGTH] = Math.max(counters[M.QUEUE_LENGTH], count);
      if (isLarge) counters[M.LARGE_QPS]++;
      if (counters[M.CLASS] === M.IDLE) place.isProvisional = true;
      counters[M.CLASS] = Math.max(counters[M.CLASS], verdict);
    }
    chooseMain(member);
  }

  private verdict(bytes: number, queue: number): number {
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

  /** Samples all queue pairs. False: nothing was sent within the window, and nothing is outstanding. */
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

  /** Adds a queue pair to its egress devices. False: nothing to add. */
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
    for (const place of member.egressDevices) {
      if (!this.leavesBy(member, qp, place, isLarge)) continue;
      // A READ sends only its request; the peer sends the data.
      const isRequest = place === member.home && this.readEgress[index] !== place && this.onlyReads(qp);
      place.add(mean, queue, isRequest ? headers : bytes + headers);
      if (!isLarge && this.onlyReads(qp)) place.awaitsAnswers = 1;
    }
    return true;
  }

  private report(member: Member, place: EgressDevice, nowNs: number, spanNs: number): void {
    const { page, activeQps, largeQps, meanBytes, queueLength, wireBytes } = place;
    const { counters } = page;
    counters[M.WIRE_GBPS] = spanNs > 0 ? Math.max(0, (8 * wireBytes) / spanNs) : 0;
    counters[M.ACTIVE_QPS] = activeQps;
    counters[M.LARGE_QPS] = largeQps;
    counters[M.MEAN_BYTES] = meanBytes;
    counters[M.QUEUE_LENGTH] = queueLength;
    counters[M.AWAITS_ANSWERS] = place.awaitsAnswers;
    counters[M.WRITTEN_NS] = nowNs;
    this.applyVerdict(place, member.part, activeQps === 0 ? M.IDLE : this.verdict(meanBytes, queueLength));
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

  /** Mean message size of a queue pair within the window; -1: nothing sent, and nothing outstanding. */
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
    const { counters } = place.page;
    const known = counters[M.CLASS];
    if (verdict === known) {
      place.candidate = M.IDLE;
    } else if (verdict === M.IDLE || known === M.IDLE || place.isProvisional) {
      counters[M.CLASS] = verdict;
      place.candidate = M.IDLE;
    } else if (place.candidate !== verdict) {
      place.candidate = verdict;
      place.candidatePart = part;
    } else if (part > place.candidatePart + 1) {
      counters[M.CLASS] = verdict;
      place.candidate = M.IDLE;
    }
    place.isProvisional = false;
  }
}

/** Selects its own device, unless large messages leave only elsewhere. On the old one it demands no slot. */
function chooseMain(member: Member): void {
  const { main, home, egressDevices } = member;
  const isLarge = ({ page }: EgressDevice) => page.counters[M.CLASS] === M.BANDWIDTH;
  const next = isLarge(home) ? home : (egressDevices.find(isLarge) ?? home);
  if (next === main) return;
  main.page.counters[M.SLOT_DEMAND] = M.NO_DEMAND;
  member.main = next;
}
