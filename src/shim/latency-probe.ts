/**
 * How long requests take: of each context one signaled request at a time, picked when somebody asks for it. Between
 * two picks no call looks at anything.
 */
import { IBV_SEND_SIGNALED } from '../verbs/constants.ts';
import * as L from '../verbs/layout.ts';
import type { ShimQp } from './qp-ledger.ts';

/** Calls that may look for a request to pick: a program that only receives has none. */
const MOST_LOOKS = 256;
/** Of what was known: a new one counts for the rest. */
const KEPT = 7 / 8;

// Nothing to do; the next post may be picked; a request is underway. In between: a call that looks is going on.
const OFF = 0;
const ARMED = 1;
const UNDERWAY = 2;
const LOOKING = 3;

/** One request of a context, from its post to the poll that finds its completion. */
export class Sample {
  /** Smoothed; 0: none yet. */
  latencyNs = 0;
  private state = OFF;
  private looks = 0;
  private qp: ShimQp | null = null;
  private seq = 0;
  private postedNs = 0;
  private readonly watch: (isWatched: boolean) => void;

  /** @param watch whether each call of the application is to look */
  constructor(watch: (isWatched: boolean) => void) {
    this.watch = watch;
  }

  get isArmed(): boolean {
    return this.state === ARMED;
  }

  get isUnderway(): boolean {
    return this.state === UNDERWAY;
  }

  /** The next post of a signaled request is picked, if none is. */
  arm(): void {
    if (this.state !== OFF) return;
    this.state = ARMED;
    this.looks = MOST_LOOKS;
    this.watch(true);
  }

  /** A call found nothing to pick. */
  look(): void {
    if (this.state === ARMED && --this.looks <= 0) this.end();
  }

  /** `count` requests are about to be posted: the first signaled one is picked. `posted` tells how that went. */
  pick(qp: ShimQp, words: Uint32Array, start: number, count: number, nowNs: number): void {
    this.state = LOOKING;
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

  /** Only a request that was taken is underway. */
  posted(): void {
    const { qp } = this;
    if (this.state !== LOOKING) return;
    this.state = ARMED;
    if (qp !== null && ((qp.appPosted - this.seq) | 0) > 0) this.state = UNDERWAY;
    else this.look();
  }

  /** A poll begins, after which `polled` looks. */
  poll(): void {
    this.state = LOOKING;
  }

  /** Over, if it completed or failed: the latter is no measure. */
  polled(nowNs: number): void {
    const { qp } = this;
    if (this.state !== LOOKING || qp === null) return;
    this.state = UNDERWAY;
    if (qp.broken) this.end();
    else if (((qp.appFreed - this.seq) | 0) > 0) {
      const ns = nowNs - this.postedNs;
      this.latencyNs = this.latencyNs === 0 ? ns : KEPT * this.latencyNs + (1 - KEPT) * ns;
      this.end();
    }
  }

  /** The queue pair went to RESET, or away. */
  drop(qp: ShimQp): void {
    if (this.qp === qp && this.state >= UNDERWAY) this.end();
  }

  /** Nothing is looked at any more. */
  end(): void {
    if (this.state !== OFF) this.watch(false);
    this.state = OFF;
    this.qp = null;
  }
}
