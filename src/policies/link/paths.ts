/**
 * The paths of a device's queue pairs, one for each peer. Where a path is congested, by other hosts or at its receiver,
 * requests complete later than what is in flight at the device explains. The excess over the other paths is time for
 * which they wait in the network, where they delay nothing at the device. They therefore count towards the window only
 * in part, and a path has no more in flight than one window.
 */
import { fitColumn } from '../../shim/tables.ts';
import { NONE } from '../kit/run-queue.ts';
import { Backoff } from './backoff.ts';
import type { Pace } from './pace.ts';
import { type Sending, Stretch } from './stretch.ts';

/** A path is congested if its requests count for less than this part. */
const CONGESTED_BELOW = 0.75;
/** Requests count for at least this part. */
const LEAST_PART = 1 / 64;
/** The weight of a new sample in the averages of a path. */
const SAMPLE_WEIGHT = 1 / 4;
/** The least late path is that of the last one to two such intervals, as a multiple of the time for a full window. */
const INTERVALS = 32;

/** Words of a path, as a power of two: how late its requests are and how long they take, both averages; and their part. */
const BITS = 2;
const LATE = 0;
const TAKEN = 1;
const PART = 2;
/** Words of the device: the end of the interval, and the least late sample of this interval and of the last one. */
const ENDS = 0;
const LEAST = 1;
const LEAST_BEFORE = 2;

/** The paths in one direction of a link. */
export class Paths {
  private readonly backoff = new Backoff();
  private readonly stretch = new Stretch();
  private states: Float64Array = new Float64Array(4 << BITS);
  /** By path: its queue pairs with something in flight. */
  private busy: Int32Array = new Int32Array(4);
  /** By queue pair: the path of what it has in flight plus one; 0: it has nothing in flight. */
  private busyOn: Int32Array = new Int32Array(64);
  private busyPaths = 0;
  private readonly interval = Float64Array.of(0, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY);

  /** A queue pair begins. */
  reset(qp: number): void {
    this.land(qp);
  }

  /** Nothing of a queue pair is in flight any more. */
  land(qp: number): void {
    this.busyOn = fitColumn(this.busyOn, qp);
    const on = this.busyOn[qp];
    if (on === 0) return;
    if (--this.busy[on - 1] === 0) this.busyPaths--;
    this.busyOn[qp] = 0;
  }

  /** A queue pair has something in flight. @param path its path; NONE: unknown */
  fly(qp: number, path: number): void {
    if (this.busyOn[qp] !== 0 || path === NONE) return;
    this.busy = fitColumn(this.busy, path);
    if (this.busy[path]++ === 0) this.busyPaths++;
    this.busyOn[qp] = path + 1;
  }

  /** Shortens or lengthens the window of a message by what the network carries. */
  fitWindow(sending: Sending & { readonly puller: { windowBytes: number } }): void {
    const { backoff, stretch } = this;
    const part = backoff.part === 1 ? 1 : backoff.partAt(sending.sentBytes, sending.sizes.windowBytes);
    sending.puller.windowBytes *= part * stretch.times;
  }

  /** A message was sent. Returns whether it is time to find out whether the window suffices (`endPeriod`). */
  isPeriodOver(sending: Sending, isShort: boolean): boolean {
    return this.stretch.isOver(sending, isShort);
  }

  /** Nothing is in flight. */
  idle(): void {
    this.stretch.interrupt();
  }

  /**
   * Fits the window to what the link has carried (Stretch.next).
   * @param isLimiting whether requests wait for the window
   */
  endPeriod(
    nowNs: number,
    sentBytes: number,
    linkPerNs: number,
    isLimiting: boolean,
    mayBeFaster: boolean,
  ): void {
    const { stretch, backoff } = this;
    const isWhole = backoff.part === 1;
    const usedPart = stretch.next(nowNs, sentBytes, linkPerNs, isLimiting && isWhole, mayBeFaster);
    if (isLimiting && !Number.isNaN(usedPart)) backoff.endPeriod(usedPart);
  }

  /** The part of what a queue pair has in flight that counts towards the window. */
  partOf(qp: number): number {
    const on = this.busyOn[qp];
    if (on === 0 || this.busyPaths < 2) return 1;
    const at = ((on - 1) << BITS) + PART;
    return at >= this.states.length || this.states[at] === 0 ? 1 : this.states[at];
  }

  /**
   * The most that a queue pair may have in flight, in bytes on the wire: its part of a window, if its path is congested.
   * It may exceed this by one piece.
   */
  mostBytes(qp: number, windowBytes: number): number {
    if (this.partOf(qp) >= CONGESTED_BELOW) return Number.POSITIVE_INFINITY;
    return windowBytes / this.busy[this.busyOn[qp] - 1];
  }

  /**
   * A request has completed.
   * @param pace which has timed it
   * @param sentBytes bytes that all queue pairs have sent, on the wire
   * @param windowPieces pieces in a full window
   */
  timed(
    qp: number,
    pace: Pace,
    nowNs: number,
    sentBytes: number,
    roundTripNs: number,
    windowPieces: number,
  ): void {
    const takenNs = pace.takenNs(qp, nowNs);
    this.compare(qp, pace.lateNs(qp, nowNs), takenNs, nowNs, pace.expectedNs);
    if (!pace.isSlow(qp))
      this.backoff.timed(takenNs, roundTripNs, windowPieces, pace.wasBusy(qp, nowNs, sentBytes), sentBytes);
  }

  /**
   * A request has completed, which is compared with those to other peers.
   * @param lateNs how much later than it was due because of what was in flight at the device
   * @param takenNs the time since it was issued
   * @param expectedNs the time in which a request completes at the end of a full window
   */
  compare(qp: number, lateNs: number, takenNs: number, nowNs: number, expectedNs: number): void {
    const on = this.busyOn[qp];
    if (on === 0) return;
    this.states = fitColumn(this.states, ((on - 1) << BITS) + PART);
    const { states, interval } = this;
    const at = (on - 1) << BITS;
    const isFirst = states[at + TAKEN] === 0;
    const weight = isFirst ? 1 : SAMPLE_WEIGHT;
    states[at + LATE] += weight * (lateNs - states[at + LATE]);
    states[at + TAKEN] += weight * (takenNs - states[at + TAKEN]);
    if (nowNs >= interval[ENDS]) {
      interval[ENDS] = nowNs + INTERVALS * expectedNs;
      interval[LEAST_BEFORE] = interval[LEAST];
      interval[LEAST] = Number.POSITIVE_INFINITY;
    }
    interval[LEAST] = Math.min(interval[LEAST], states[at + LATE]);
    const excessNs = states[at + LATE] - Math.min(interval[LEAST], interval[LEAST_BEFORE]);
    states[at + PART] = Math.max(LEAST_PART, 1 - excessNs / states[at + TAKEN]);
  }
}
