/**
 * Keeps contexts to what the links at both ends have room for (agent/fair-agent.ts): in each direction, a token bucket for
 * all that a context sends, and one for each peer. Queue pairs whose context has no tokens wait here.
 */
import { Bucket } from '../../shim/limits/bucket.ts';
import type { QpView } from '../../shim/policy.ts';
import { NONE, RunQueue } from '../kit/run-queue.ts';

/** What a limit lets pass at once after an idle time, and what it saves up before waiting queue pairs go on. */
const BURST_NS = 20_000;
const ROW_NS = 2_000;
/** Timers are late, so the burst is this many times their lateness, up to a maximum. It shrinks by a part each time. */
const LATE_TIMES = 2;
const MOST_BURST_NS = 2e6;
const SHRINK = 1 / 64;

/** The limit of a context in one direction, at one peer or in total. */
export class Limit {
  readonly number: number;
  readonly bucket = new Bucket({ burst: 0 });
  /** In bytes on the wire per nanosecond; 0: no limit. */
  perNs = 0;
  /** Whether queue pairs that waited may go on, until the tokens are used up. */
  isOpen = false;
  /** The number of queue pairs that share it: those that have sent something lately, or wait. */
  senders = 1;

  constructor(number: number) {
    this.number = number;
  }
}

/** The limits of a queue pair: of its context, and of its context at its peer, if the peer is known. */
export interface QpLimits {
  readonly out: Limit;
  readonly in: Limit;
  readonly peerOut: Limit | null;
  readonly peerIn: Limit | null;
}

/** The limits of the contexts of one device in this process. */
export class FlowLimits {
  /** Whether any limit is set, and how many are. */
  isLimiting = false;
  private limiting = 0;
  /** The request of a READ, in bytes on the wire. */
  private readonly requestBytes: number;
  private readonly all = new Set<Limit>();
  private readonly free: number[] = [];
  // By queue pair.
  private readonly qps: QpView[] = [];
  private readonly limitsOf: (QpLimits | undefined)[] = [];
  /** Queue pairs that wait, a queue for each limit, and the limits that have one. */
  private readonly waiting = new RunQueue();
  private readonly awaited = new Set<Limit>();
  private burstNs = BURST_NS;

  constructor(requestBytes: number) {
    this.requestBytes = requestBytes;
  }

  /** A limit that limits nothing yet. */
  create(): Limit {
    const limit = new Limit(this.free.pop() ?? this.all.size);
    this.all.add(limit);
    return limit;
  }

  /** Drops a limit that no queue pair has any more. */
  drop(limit: Limit): void {
    if (!this.all.delete(limit)) return;
    this.free.push(limit.number);
    this.awaited.delete(limit);
    this.count(limit.perNs, 0);
  }

  /** Gives a queue pair its limits. */
  assign(qp: QpView, limits: QpLimits): void {
    this.remove(qp.index);
    this.qps[qp.index] = qp;
    this.limitsOf[qp.index] = limits;
  }

  /** A queue pair no longer has limits, and no longer waits. */
  remove(qp: number): void {
    this.waiting.remove(qp);
    this.limitsOf[qp] = undefined;
  }

  /** Sets the rate of a limit, in bytes on the wire per nanosecond; 0: none. */
  set(limit: Limit, perNs: number, nowNs: number): void {
    if (!this.all.has(limit)) return;
    const { bucket } = limit;
    if (limit.perNs === 0) {
      // Without a limit, nothing was counted.
      bucket.setBurst(0);
      bucket.take(Math.min(0, bucket.tokens));
      limit.isOpen = false;
    }
    bucket.fill(nowNs);
    bucket.setRate(perNs);
    bucket.setBurst(perNs * this.burstNs);
    this.count(limit.perNs, perNs);
    limit.perNs = perNs;
  }

  /** The rate of a limit changes. */
  private count(before: number, after: number): void {
    this.limiting += (after > 0 ? 1 : 0) - (before > 0 ? 1 : 0);
    this.isLimiting = this.limiting > 0;
  }

  /** Whether any limit may hold up the queue pair. */
  limits(qp: number): boolean {
    if (!this.isLimiting) return false;
    const limits = this.limitsOf[qp];
    if (limits === undefined) return false;
    const { out, in: into, peerOut, peerIn } = limits;
    return out.perNs + into.perNs > 0 || (peerOut?.perNs ?? 0) + (peerIn?.perNs ?? 0) > 0;
  }

  /**
   * The most that the queue pair may have in flight to its peer: its part of what its context may send in this time, in
   * bytes on the wire. Infinity: there is no limit. More would only wait in the network, behind what other hosts send.
   */
  flightBytes(qp: number, isRead: boolean, ns: number): number {
    if (!this.isLimiting) return Number.POSITIVE_INFINITY;
    const limits = this.limitsOf[qp];
    const limit = (isRead ? limits?.peerIn : limits?.peerOut) ?? null;
    return limit === null || limit.perNs === 0
      ? Number.POSITIVE_INFINITY
      : (limit.perNs * ns) / limit.senders;
  }

  /** The limit that holds up the queue pair; null: it may send, or READ. */
  lacking(qp: number, isRead: boolean, nowNs: number): Limit | null {
    const limits = this.limitsOf[qp];
    if (limits === undefined) return null;
    const { out, in: into, peerOut, peerIn } = limits;
    if (this.isLacking(out, nowNs)) return out;
    if (!isRead) return peerOut !== null && this.isLacking(peerOut, nowNs) ? peerOut : null;
    if (this.isLacking(into, nowNs)) return into;
    return peerIn !== null && this.isLacking(peerIn, nowNs) ? peerIn : null;
  }

  private isLacking(limit: Limit, nowNs: number): boolean {
    if (limit.perNs === 0) return false;
    // Queue pairs that already wait go first.
    if (!limit.isOpen && this.waiting.first(limit.number) !== NONE) return true;
    return limit.bucket.tokens <= 0 && limit.bucket.fill(nowNs) <= 0;
  }

  /** A queue pair sends this much in a direction, in bytes on the wire, with so many requests. */
  take(qp: number, isRead: boolean, wireBytes: number, requests: number): void {
    const limits = this.limitsOf[qp];
    if (limits === undefined) return;
    if (isRead) {
      use(limits.out, requests * this.requestBytes);
      use(limits.in, wireBytes);
      if (limits.peerIn !== null) use(limits.peerIn, wireBytes);
    } else {
      use(limits.out, wireBytes);
      if (limits.peerOut !== null) use(limits.peerOut, wireBytes);
    }
  }

  /** A queue pair waits for the tokens of a limit. Returns when there are enough. */
  park({ index }: QpView, limit: Limit): number {
    this.waiting.push(index, limit.number);
    this.awaited.add(limit);
    return this.readyNsOf(limit);
  }

  /** Whether a queue pair waits. */
  waits(qp: number): boolean {
    return this.waiting.has(qp);
  }

  /** A queue pair that need no longer wait; null: there is none. */
  release(nowNs: number): QpView | null {
    for (const limit of this.awaited) {
      const first = this.waiting.first(limit.number);
      if (first === NONE) this.awaited.delete(limit);
      else if (this.opens(limit, nowNs)) {
        this.waiting.remove(first);
        return this.qps[first];
      }
    }
    return null;
  }

  private opens(limit: Limit, nowNs: number): boolean {
    if (limit.perNs === 0) return true;
    if (limit.isOpen) return limit.bucket.tokens > 0;
    const dueNs = this.readyNsOf(limit);
    if (nowNs < dueNs) return false;
    this.late(nowNs - dueNs);
    limit.bucket.setBurst(limit.perNs * this.burstNs);
    limit.bucket.fill(nowNs);
    limit.isOpen = true;
    return true;
  }

  /** A timer was late by so much. */
  private late(ns: number): void {
    const shrunkNs = this.burstNs - SHRINK * (this.burstNs - BURST_NS);
    this.burstNs = Math.min(MOST_BURST_NS, Math.max(shrunkNs, BURST_NS, LATE_TIMES * ns));
  }

  private readyNsOf({ perNs, bucket }: Limit): number {
    // A bucket never has more than its burst, which is less than a byte at very low rates.
    return perNs === 0 ? 0 : bucket.readyNs(Math.min(bucket.burst, Math.max(1, perNs * ROW_NS)));
  }

  /** When the first queue pairs that wait may go on; Infinity: none waits. */
  get readyNs(): number {
    let readyNs = Number.POSITIVE_INFINITY;
    for (const limit of this.awaited)
      if (this.waiting.first(limit.number) !== NONE) readyNs = Math.min(readyNs, this.readyNsOf(limit));
    return readyNs;
  }
}

function use(limit: Limit, bytes: number): void {
  if (limit.perNs === 0) return;
  limit.bucket.take(bytes);
  if (limit.bucket.tokens <= 0) limit.isOpen = false;
}
