/**
 * Measures how long requests take: one signaled request of a context at a time, chosen after `arm`. While no
 * measurement is due, no call checks anything.
 */
import { IBV_SEND_SIGNALED } from '../verbs/constants.ts';
import * as L from '../verbs/layout.ts';
import { LATENCY_BOUNDS_NS } from './counters.ts';

/** Number of calls that check for a request to choose, because a program that only receives posts none. */
const MAX_CALLS = 256;
/** Weight of the earlier values in the smoothed latency; the new value has the remaining weight. */
const KEPT = 7 / 8;

// States: idle; the next signaled request will be chosen; a request is under way; a call that checks is in progress.
const OFF = 0;
const ARMED = 1;
const UNDERWAY = 2;
const IN_CALL = 3;

/** The fields of a queue pair that the probe reads. */
interface ProbedQp {
  readonly sqSigAll: boolean;
  readonly appPosted: number;
  readonly appFreed: number;
  readonly broken: boolean;
}

/** One request of a context, from its post to the poll that finds its completion. */
export class LatencyProbe {
  /** The smoothed latency; 0 if nothing was measured yet. */
  latencyNs = 0;
  /** The sum of all measurements, and their numbers by bucket (LATENCY_BOUNDS_NS). */
  sumNs = 0;
  readonly buckets = new Float64Array(LATENCY_BOUNDS_NS.length + 1);
  private state = OFF;
  private callsLeft = 0;
  private qp: ProbedQp | null = null;
  private seq = 0;
  private postedNs = 0;
  private readonly watch: (isWatched: boolean) => void;

  /** @param watch called with whether every call of the application must check */
  constructor(watch: (isWatched: boolean) => void) {
    this.watch = watch;
  }

  get isArmed(): boolean {
    return this.state === ARMED;
  }

  get isUnderway(): boolean {
    return this.state === UNDERWAY;
  }

  /** Measures the next signaled request, unless a measurement is in progress. */
  arm(): void {
    if (this.state !== OFF) return;
    this.state = ARMED;
    this.callsLeft = MAX_CALLS;
    this.watch(true);
  }

  /** A call offered no request to choose. */
  countMiss(): void {
    if (this.state === ARMED && --this.callsLeft <= 0) this.end();
  }

  /** `count` requests are about to be posted: chooses the first signaled one. `endPost` follows. */
  beginPost(qp: ProbedQp, words: Uint32Array, start: number, count: number, nowNs: number): void {
    this.state = IN_CALL;
    this.qp = null;
    for (let i = 0; i < count; i++) {
      const isSignaled = (words[L.slotAt(start + i) + L.WR_OP] & (IBV_SEND_SIGNALED << 8)) !== 0;
      if (!isSignaled && !qp.sqSigAll) continue;
      this.qp = qp;
      this.seq = (qp.appPosted + i) | 0;
      this.postedNs = nowNs;
      return;
    }
  }

  /** The request is under way if the post accepted it. */
  endPost(): void {
    const { qp } = this;
    if (this.state !== IN_CALL) return;
    this.state = ARMED;
    if (qp !== null && ((qp.appPosted - this.seq) | 0) > 0) this.state = UNDERWAY;
    else this.countMiss();
  }

  /** A poll begins; `endPoll` follows. */
  beginPoll(): void {
    this.state = IN_CALL;
  }

  /** Ends the measurement if the request has completed. A failed request does not count. */
  endPoll(nowNs: number): void {
    const { qp } = this;
    if (this.state !== IN_CALL || qp === null) return;
    this.state = UNDERWAY;
    if (qp.broken) this.end();
    else if (((qp.appFreed - this.seq) | 0) > 0) {
      const ns = nowNs - this.postedNs;
      this.count(ns);
      this.latencyNs = this.latencyNs === 0 ? ns : KEPT * this.latencyNs + (1 - KEPT) * ns;
      this.end();
    }
  }

  private count(ns: number): void {
    this.sumNs += ns;
    let bucket = 0;
    while (bucket < LATENCY_BOUNDS_NS.length && ns > LATENCY_BOUNDS_NS[bucket]) bucket++;
    this.buckets[bucket]++;
  }

  /** The queue pair was reset or destroyed. */
  drop(qp: ProbedQp): void {
    if (this.qp === qp && this.state >= UNDERWAY) this.end();
  }

  /** Stops measuring; calls no longer check anything. */
  end(): void {
    if (this.state !== OFF) this.watch(false);
    this.state = OFF;
    this.qp = null;
  }
}
