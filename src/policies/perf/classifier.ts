/**
 * What kind of application each context serves (PeRF, section 3.3): by the mean size of its messages and the longest
 * queue within a window, of the queue pair where that is largest. The first request of a queue pair decides at once;
 * later changes need two windows that agree. What it finds is in the context's page of counters.
 */
import * as M from '../../coordinator/members.ts';
import { withPlace } from '../../shim/columns.ts';
import { BYTES, SEEN } from '../../shim/counters.ts';
import type { Actions, ContextView, QpView } from '../../shim/policy.ts';
import { type ActiveTenants, GrantedTenants } from './waits.ts';

/** Messages of a bandwidth application are this long on average. */
export const LARGE_BYTES = 1024;
/** Parts of a window: it slides by one of them. Columns have one place more, for the last sample. */
const PARTS = 8;
const STRIDE = PARTS + 1;
/** The first sample comes this soon after the first request; each later one after twice the time, up to the period. */
const FIRST_SAMPLE_NS = 10_000;

/** Of a packet of RoCEv2, with gap and RETH. */
const HEADER_BYTES = 98;

// What is known of a queue pair.
export const UNSEEN = 0;
export const SMALL = 1;
export const LARGE = 2;

export interface ClassifierOptions {
  readonly thMApp: number;
  readonly samplePeriodNs: number;
  readonly windowNs: number;
}

/** One context, and what is known of its queue pairs. */
export class Member {
  readonly context: ContextView;
  readonly page: M.MemberPage;
  /** Who else is on the device. */
  others: ActiveTenants;
  /** Its pages on devices that it may READ from. */
  elsewhere: M.MemberPage[] = [];
  private readonly here: ActiveTenants;
  readonly qps: QpView[] = [];
  /** What a small message has on the wire beside its payload. */
  readonly headerBytes: number;
  /** Time to the next sample; 0: none is planned. */
  periodNs = 0;
  sampledNs = 0;
  /** Number of the current part of the window, since time 0. */
  part = -1;
  /** Bytes and messages at the last sample. */
  bytes = 0;
  messages = 0;
  /** The class that the window speaks for while it is another than the context's, and the part since when. */
  candidate = M.IDLE;
  candidatePart = 0;
  /** The rate was not sampled yet. */
  provisional = true;

  constructor(context: ContextView, page: M.MemberPage) {
    this.context = context;
    this.page = page;
    this.here = new GrantedTenants(page.grants);
    this.others = this.here;
    this.headerBytes = context.nic?.headerBytes ?? HEADER_BYTES;
  }

  /** Whether somebody suffers from its large messages, here or where its READs leave: they are the others then. */
  get isToSplit(): boolean {
    this.others = this.here;
    if (this.page.grants[M.SPLIT] === 1 || this.elsewhere.length === 0)
      return this.page.grants[M.SPLIT] === 1;
    for (const { grants } of this.elsewhere) {
      if (grants[M.SPLIT] !== 1) continue;
      this.others = new GrantedTenants(grants);
      return true;
    }
    return false;
  }
}

export class Classifier {
  private readonly o: ClassifierOptions;
  private readonly partNs: number;
  /** By queue pair. */
  kinds: Uint8Array = new Uint8Array(64);
  /** By queue pair and part of the window: bytes and messages when it began, and the longest queue in it. */
  private bytesAt: Float64Array = new Float64Array(64 * STRIDE);
  private messagesAt: Float64Array = new Float64Array(64 * STRIDE);
  private longest: Float64Array = new Float64Array(64 * STRIDE);

  constructor(options: ClassifierOptions) {
    this.o = options;
    this.partNs = options.windowNs / PARTS;
  }

  /** A queue pair was created. */
  add(member: Member, qp: QpView): void {
    const from = qp.index * STRIDE;
    const last = from + PARTS;
    this.kinds = withPlace(this.kinds, qp.index);
    this.bytesAt = withPlace(this.bytesAt, last);
    this.messagesAt = withPlace(this.messagesAt, last);
    this.longest = withPlace(this.longest, last);
    for (const column of [this.bytesAt, this.messagesAt, this.longest]) column.fill(0, from, last + 1);
    this.kinds[qp.index] = UNSEEN;
    member.qps.push(qp);
  }

  remove(member: Member, qp: QpView): void {
    const at = member.qps.findIndex(({ handle }) => handle === qp.handle);
    if (at < 0) return;
    member.bytes -= member.qps[at].counts[BYTES];
    member.messages -= member.qps[at].counts[SEEN];
    member.qps.splice(at, 1);
  }

  /** The first `count` requests of a queue pair, the largest of them with `bytes`, are being posted. */
  first(member: Member, qp: QpView, bytes: number, count: number): void {
    const { counters } = member.page;
    const isLarge = bytes >= LARGE_BYTES;
    this.kinds[qp.index] = isLarge ? LARGE : SMALL;
    counters[M.ACTIVE_QPS]++;
    counters[M.MEAN_BYTES] = Math.max(counters[M.MEAN_BYTES], bytes);
    counters[M.QUEUE_LENGTH] = Math.max(counters[M.QUEUE_LENGTH], count);
    if (isLarge) counters[M.LARGE_QPS]++;
    const verdict = this.verdict(bytes, count);
    if (counters[M.CLASS] === M.IDLE) member.provisional = true;
    counters[M.CLASS] = Math.max(counters[M.CLASS], verdict);
  }

  private verdict(bytes: number, queue: number): number {
    if (bytes >= LARGE_BYTES) return M.BANDWIDTH;
    return queue > this.o.thMApp ? M.MESSAGES : M.DELAY;
  }

  /** When the next sample is due, after one or after a first request. */
  plan(member: Member, nowNs: number): number {
    const { samplePeriodNs } = this.o;
    const next = member.periodNs === 0 ? FIRST_SAMPLE_NS : 2 * member.periodNs;
    member.periodNs = Math.min(next, samplePeriodNs);
    return nowNs + member.periodNs;
  }

  /** Looks at all queue pairs. False: nothing was sent within the window, and nothing is outstanding. */
  sample(member: Member, nowNs: number, out: Actions): boolean {
    this.enter(member, nowNs);
    const { counters } = member.page;
    let meanBytes = 0;
    let queue = 0;
    let active = 0;
    let large = 0;
    let bytes = 0;
    let messages = 0;
    for (const qp of member.qps) {
      const mean = this.look(qp, member.part, out.outstanding(qp));
      bytes += qp.counts[BYTES];
      messages += qp.counts[SEEN];
      if (mean < 0) continue;
      active++;
      if (mean >= LARGE_BYTES) large++;
      meanBytes = Math.max(meanBytes, mean);
      queue = Math.max(queue, this.longestOf(qp.index));
    }
    counters[M.WIRE_GBPS] = this.wireGbps(member, bytes, messages, nowNs);
    counters[M.ACTIVE_QPS] = active;
    counters[M.LARGE_QPS] = large;
    counters[M.MEAN_BYTES] = meanBytes;
    counters[M.QUEUE_LENGTH] = queue;
    counters[M.SEEN_NS] = nowNs;
    this.settle(member, active === 0 ? M.IDLE : this.verdict(meanBytes, queue));
    if (active === 0) member.periodNs = 0;
    return active > 0;
  }

  /** Begins the parts of the window that time has come to: what was sent since the last sample is in them. */
  private enter(member: Member, nowNs: number): void {
    const part = Math.floor(nowNs / this.partNs);
    for (let p = Math.max(member.part + 1, part - PARTS + 1); p <= part; p++) {
      for (const { index } of member.qps) {
        const at = index * STRIDE + (p % PARTS);
        this.bytesAt[at] = this.bytesAt[index * STRIDE + PARTS];
        this.messagesAt[at] = this.messagesAt[index * STRIDE + PARTS];
        this.longest[at] = 0;
      }
    }
    member.part = part;
  }

  /** The mean message of a queue pair within the window; -1: it sent nothing, and nothing is outstanding. */
  private look(qp: QpView, part: number, outstanding: number): number {
    const { index, counts } = qp;
    const from = index * STRIDE;
    const current = from + (part % PARTS);
    const oldest = from + ((part + 1) % PARTS);
    this.longest[current] = Math.max(this.longest[current], outstanding);
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

  private longestOf(index: number): number {
    let longest = 0;
    for (let p = 0; p < PARTS; p++) longest = Math.max(longest, this.longest[index * STRIDE + p]);
    return longest;
  }

  private wireGbps(member: Member, bytes: number, messages: number, nowNs: number): number {
    const spanNs = nowNs - member.sampledNs;
    const sent = bytes - member.bytes + (messages - member.messages) * member.headerBytes;
    member.sampledNs = nowNs;
    member.bytes = bytes;
    member.messages = messages;
    return spanNs > 0 ? Math.max(0, (8 * sent) / spanNs) : 0;
  }

  /** Takes a verdict: at once if it is the first on the rate or says idle, else when a window one part later agrees. */
  private settle(member: Member, verdict: number): void {
    const { counters } = member.page;
    const known = counters[M.CLASS];
    if (verdict === known) {
      member.candidate = M.IDLE;
    } else if (verdict === M.IDLE || known === M.IDLE || member.provisional) {
      counters[M.CLASS] = verdict;
      member.candidate = M.IDLE;
    } else if (member.candidate !== verdict) {
      member.candidate = verdict;
      member.candidatePart = member.part;
    } else if (member.part > member.candidatePart + 1) {
      counters[M.CLASS] = verdict;
      member.candidate = M.IDLE;
    }
    member.provisional = false;
  }
}
