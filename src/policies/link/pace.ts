/**
 * Finds queue pairs whose requests take much longer than the window does although the link is not busy: the bottleneck is
 * elsewhere, at a switch, at their peer or at a limit of their own rate. What they have in flight does not queue at the
 * device, so it must not keep others from sending.
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
 * What a slow queue pair has in flight: what it sends in this time, within these bounds. Rate limiters of NICs recover in
 * about as long while a queue pair has nothing to send (DCQCN's five stages of 300 us), and then let too much go. More
 * than that would only fill the queues of switches.
 */
const FLIGHT_NS = 2e6;
const LEAST_FLIGHT_BYTES = 2 * SLOW_PIECE_BYTES;
const MOST_FLIGHT_BYTES = 4 * SLOW_PIECE_BYTES;

/** One in so many requests is timed, because reading the clock takes long. */
const TIMED_EACH = 8;

/**
 * Words of a queue pair, as a power of two: how many of its requests were issued, the number of the one being timed (0 or
 * negative: none is, until as many were issued), when the timing began, what all queue pairs had sent by then, and when the
 * request is due to complete; while it is slow, the most bytes of messages in flight; and how many of its requests had been
 * issued with the last one in the other direction.
 */
const BITS = 3;
const ISSUED = 0;
const TIMED = 1;
const SINCE = 2;
const SENT = 3;
const DUE = 4;
const FLIGHT = 5;
const ELSEWHERE = 6;

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
    this.states = fitColumn(this.states, (qp << BITS) + ELSEWHERE);
    this.states.fill(0, qp << BITS, (qp + 1) << BITS);
    this.states[(qp << BITS) + FLIGHT] = LEAST_FLIGHT_BYTES;
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

  /**
   * Whether the request that was issued last should be timed. Requests of a queue pair complete in order, so one behind
   * those of the other direction takes long because of them.
   * @param inflight requests in flight, with this one
   */
  isDue(qp: number, inflight: number): boolean {
    const at = qp << BITS;
    const timed = this.states[at + TIMED];
    const issued = this.states[at + ISSUED];
    return timed <= 0 && issued >= -timed && issued - inflight >= this.states[at + ELSEWHERE];
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

  /** A request was issued in the other direction. */
  issuedElsewhere(qp: number): void {
    const at = qp << BITS;
    this.states[at + ELSEWHERE] = ++this.states[at + ISSUED];
  }

  /**
   * The request that was issued last is timed from now on.
   * @param dueNs when it completes if the link is the bottleneck
   * @param sentBytes bytes that all have sent, on the wire
   */
  time(qp: number, nowNs: number, dueNs: number, sentBytes: number): void {
    const at = qp << BITS;
    this.states[at + TIMED] = this.states[at + ISSUED];
    this.states[at + SINCE] = nowNs;
    this.states[at + SENT] = sentBytes;
    this.states[at + DUE] = dueNs;
  }

  /** The time since the request that is being timed was issued. */
  takenNs(qp: number, nowNs: number): number {
    return nowNs - this.states[(qp << BITS) + SINCE];
  }

  /** How much later than it was due the request that is being timed completes. */
  lateNs(qp: number, nowNs: number): number {
    return nowNs - this.states[(qp << BITS) + DUE];
  }

  /** The part of the link that was used since the request that is being timed was issued. */
  usedPart(qp: number, nowNs: number, sentBytes: number): number {
    const usedBytes = sentBytes - this.states[(qp << BITS) + SENT];
    return usedBytes / (this.linkPerNs * this.takenNs(qp, nowNs));
  }

  /** Whether the link was busy since the request that is being timed was issued. */
  wasBusy(qp: number, nowNs: number, sentBytes: number): boolean {
    return this.usedPart(qp, nowNs, sentBytes) > BUSY;
  }

  /**
   * The request that was being timed has completed.
   * @param isLate whether it may have been polled late
   * @param coveredNs how long completions of the queue pair wait for polls
   */
  completed(qp: number, nowNs: number, sentBytes: number, isLate: boolean, coveredNs = 0): void {
    const at = qp << BITS;
    this.states[at + TIMED] = -(this.states[at + ISSUED] + TIMED_EACH);
    if (isLate) return;
    const takenNs = this.takenNs(qp, nowNs);
    if (this.slow[qp] === 1) this.fitFlight(at, takenNs);
    const expectedNs = this.expectedNs + coveredNs;
    if (this.wasBusy(qp, nowNs, sentBytes) || takenNs < FAST * expectedNs) this.slow[qp] = 0;
    else if (takenNs > SLOW * expectedNs) this.slow[qp] = 1;
  }

  /** Fits what a slow queue pair has in flight to its rate: what was in flight took this long. */
  private fitFlight(at: number, takenNs: number): void {
    const bytes = (this.states[at + FLIGHT] * FLIGHT_NS) / takenNs;
    this.states[at + FLIGHT] = Math.max(LEAST_FLIGHT_BYTES, Math.min(MOST_FLIGHT_BYTES, bytes));
  }
}
