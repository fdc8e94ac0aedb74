/**
 * Finds queue pairs whose requests take much longer than the window does although the link is not busy: the bottleneck is
 * elsewhere, at a switch, at their peer or at a limit of their own rate. What they have in flight does not queue at the
 * device, so it must not keep others from sending, and more of it does no harm.
 */
import { fitColumn } from '../../shim/tables.ts';

/** A queue pair is slow if a request takes this many times as long as it would at the end of a full window ... */
const SLOW = 4;
/** ... and no longer slow at this many times. */
const FAST = 2;
/** The link is busy if this part of it was used meanwhile: requests then wait for others, or for their own queue pair. */
const BUSY = 0.7;

/** One in so many requests is timed, because reading the clock takes long. */
const TIMED_EACH = 8;

/**
 * Words of a queue pair, as a power of two: how many of its requests were issued, the number of the one being timed (0 or
 * negative: none is, until as many were issued), when the timing began, and what all queue pairs had sent by then.
 */
const BITS = 2;
const ISSUED = 0;
const TIMED = 1;
const SINCE = 2;
const SENT = 3;

/** The paces of queue pairs. */
export class Pace {
  /** Time in which a request completes at the end of a full window. */
  expectedNs = Number.POSITIVE_INFINITY;
  private readonly linkPerNs: number;
  private states: Float64Array = new Float64Array(64 << BITS);
  /** By queue pair: 1 if it is slow. */
  private slow: Uint8Array = new Uint8Array(64);

  /** @param linkPerNs the rate of the link, in bytes on the wire */
  constructor(linkPerNs: number) {
    this.linkPerNs = linkPerNs;
  }

  /** A queue pair begins, or begins again. */
  reset(qp: number): void {
    this.states = fitColumn(this.states, (qp << BITS) + SENT);
    this.states.fill(0, qp << BITS, (qp + 1) << BITS);
    this.slow = fitColumn(this.slow, qp);
    this.slow[qp] = 0;
  }

  isSlow(qp: number): boolean {
    return this.slow[qp] === 1;
  }

  /** Whether the request that was issued last should be timed. */
  isDue(qp: number): boolean {
    const timed = this.states[(qp << BITS) + TIMED];
    return timed <= 0 && this.states[(qp << BITS) + ISSUED] >= -timed;
  }

  /** Whether the request that is being timed has completed. @param inflight requests that are still in flight */
  isDone(qp: number, inflight: number): boolean {
    const timed = this.states[(qp << BITS) + TIMED];
    return timed > 0 && this.states[(qp << BITS) + ISSUED] - inflight >= timed;
  }

  /** A request was issued. */
  issued(qp: number): void {
    this.states[(qp << BITS) + ISSUED]++;
  }

  /** The request that was issued last is timed from now on. @param sentBytes bytes that all have sent, on the wire */
  time(qp: number, nowNs: number, sentBytes: number): void {
    const at = qp << BITS;
    this.states[at + TIMED] = this.states[at + ISSUED];
    this.states[at + SINCE] = nowNs;
    this.states[at + SENT] = sentBytes;
  }

  /** The request that was being timed has completed. */
  completed(qp: number, nowNs: number, sentBytes: number): void {
    const { states } = this;
    const at = qp << BITS;
    states[at + TIMED] = -(states[at + ISSUED] + TIMED_EACH);
    const takenNs = nowNs - states[at + SINCE];
    const isBusy = sentBytes - states[at + SENT] > BUSY * this.linkPerNs * takenNs;
    if (isBusy || takenNs < FAST * this.expectedNs) this.slow[qp] = 0;
    else if (takenNs > SLOW * this.expectedNs) this.slow[qp] = 1;
  }
}
