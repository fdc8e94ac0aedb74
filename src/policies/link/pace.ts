/**
 * Finds queue pairs whose requests take much longer than the window does although the link is not busy: the bottleneck is
 * elsewhere, at a switch, at their peer or at a limit of their own rate. What they have in flight does not queue at the
 * device, so it must not keep others from sending.
 *
 * Requests also take long if their application polls late. Then, completions arrive in bunches, closer together than the
 * link could have delivered them, and more must be in flight to keep the link busy in the meantime.
 */
import { fitColumn } from '../../shim/tables.ts';

/** A queue pair is slow if a request takes this many times as long as it would at the end of a full window ... */
const SLOW = 4;
/** ... and no longer slow at this many times. */
const FAST = 2;
/** The link is busy if this part of it was used meanwhile: requests then wait for others, or for their own queue pair. */
const BUSY = 0.7;

/** Length of the pieces of a slow queue pair. They need not be short, because they do not queue at the device. */
export const SLOW_PIECE_BYTES = 65_536;
/**
 * What a slow queue pair has in flight: one piece is sent while another one waits. More would fill the queues of switches:
 * the rate limiters of NICs recover while a queue pair waits for its policy, and then let too much go.
 */
const FLIGHT_BYTES = 2 * SLOW_PIECE_BYTES;
/** The most that it has in flight if its application polls late, and by how much that exceeds what the link carries. */
const MOST_FLIGHT_BYTES = 16 * 1024 * 1024;
const LATE_FLIGHT = 1.25;

/** One in so many requests is timed, because reading the clock takes long. */
const TIMED_EACH = 8;

/**
 * Words of a queue pair, as a power of two: how many of its requests were issued, the number of the one being timed (0 or
 * negative: none is, until as many were issued), when the timing began, and what all queue pairs had sent by then. While it
 * is slow: when a request completed last, how many have completed, the longest time between two events with completions
 * since the last timing (negative: none arrived in a bunch), and the most bytes that may be in flight.
 */
const BITS = 3;
const ISSUED = 0;
const TIMED = 1;
const SINCE = 2;
const SENT = 3;
const LAST = 4;
const DONE = 5;
const GAP = 6;
const FLIGHT = 7;

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
    this.states = fitColumn(this.states, (qp << BITS) + FLIGHT);
    this.states.fill(0, qp << BITS, (qp + 1) << BITS);
    this.states[(qp << BITS) + FLIGHT] = FLIGHT_BYTES;
    this.slow = fitColumn(this.slow, qp);
    this.slow[qp] = 0;
  }

  isSlow(qp: number): boolean {
    return this.slow[qp] === 1;
  }

  /** What a slow queue pair may have in flight, in bytes of messages. */
  flightBytes(qp: number): number {
    return this.states[(qp << BITS) + FLIGHT];
  }

  /** Requests of a slow queue pair have completed. @param inflight requests that are still in flight */
  happened(qp: number, nowNs: number, inflight: number): void {
    const { states } = this;
    const at = qp << BITS;
    const done = states[at + ISSUED] - inflight;
    const gapNs = nowNs - states[at + LAST];
    const isBunch = done - states[at + DONE] > 1 || 2 * gapNs * this.linkPerNs < SLOW_PIECE_BYTES;
    const longestNs = Math.max(gapNs, Math.abs(states[at + GAP]));
    states[at + GAP] = isBunch || states[at + GAP] > 0 ? longestNs : -longestNs;
    states[at + LAST] = nowNs;
    states[at + DONE] = done;
  }

  /** Fits what a slow queue pair has in flight to how late its application polls. Returns whether it does. */
  private isLate(at: number): boolean {
    const { states } = this;
    const wantedBytes = states[at + GAP] > 0 ? LATE_FLIGHT * this.linkPerNs * states[at + GAP] : 0;
    states[at + FLIGHT] = Math.max(FLIGHT_BYTES, Math.min(MOST_FLIGHT_BYTES, wantedBytes));
    states[at + GAP] = 0;
    return wantedBytes > FLIGHT_BYTES;
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

  private begin(qp: number, nowNs: number): void {
    const at = qp << BITS;
    this.slow[qp] = 1;
    this.states[at + LAST] = nowNs;
    this.states[at + DONE] = this.states[at + ISSUED];
    this.states[at + GAP] = 0;
  }

  /** The request that was being timed has completed. */
  completed(qp: number, nowNs: number, sentBytes: number): void {
    const { states } = this;
    const at = qp << BITS;
    states[at + TIMED] = -(states[at + ISSUED] + TIMED_EACH);
    const takenNs = nowNs - states[at + SINCE];
    if (this.slow[qp] === 1 && this.isLate(at)) return;
    const isBusy = sentBytes - states[at + SENT] > BUSY * this.linkPerNs * takenNs;
    if (isBusy || takenNs < FAST * this.expectedNs) this.slow[qp] = 0;
    else if (takenNs > SLOW * this.expectedNs && this.slow[qp] === 0) this.begin(qp, nowNs);
  }
}
