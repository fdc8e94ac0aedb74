/**
 * Finds out how late completions are polled. A window that covers a round trip empties while nothing polls, and the
 * link stands idle. What is in flight must also cover this time, and no more than that.
 *
 * A request may take long for other reasons, too. But if polls are late, several completions wait for the same poll,
 * and the next one follows at once.
 */
import { NONE } from '../kit/run-queue.ts';
import type { WireFacts } from '../kit/wire.ts';

/** A completion may be late if it comes later than this part of the time that a request takes at the end of the window. */
const LATE = 1;
/**
 * The next one follows at once if it takes less than this part of the time for which the link carries a piece, or less than
 * a few polls take; and less than the same part of the average time between two completions.
 */
const AT_ONCE = 0.5;
const POLLS_NS = 1000;
/** What is in flight suffices if this part of the link is used. */
const BUSY = 0.9;
/**
 * For how long polls count as late after a late one. After that, they count as half as late for as long again, and so
 * on.
 */
const HOLD_NS = 10e6;
/** A completion later than this part of `ns` shows that polls are still late. */
const STILL = 0.25;
/** The most that polls count as late. */
const MOST_NS = 2e6;
/** Completions wait for up to this many times as long as the one that was measured. */
const SPARE = 1.25;
/**
 * While polls are late, this many pieces fill the window: with their 0_WAITs, nearly as many as a queue pair has slots for
 * in addition to the application's own.
 */
const PIECES = 30;

/** How late the completions of one direction of a device are polled. */
export class LatePolls {
  /** The time for which completions wait; 0: they are polled soon. */
  ns = 0;
  private heldUntilNs = 0;
  /** The queue pair whose next completion shows whether one was polled late; NONE: there is none. */
  private qp = NONE;
  private lateNs = 0;
  private usedPart = 0;
  private untilNs = 0;

  /** The time that what is in flight must cover besides a round trip. */
  get coveredNs(): number {
    return SPARE * this.ns;
  }

  /** Length of pieces while polls are late. */
  static pieceBytes(windowBytes: number, { mtuBytes }: Pick<WireFacts, 'mtuBytes'>): number {
    return Math.ceil(windowBytes / PIECES / mtuBytes) * mtuBytes;
  }

  /** A queue pair begins anew. */
  reset(qp: number): void {
    if (this.qp === qp) this.qp = NONE;
  }

  /** Whether the next completion of this queue pair is awaited (`next`). */
  awaits(qp: number): boolean {
    return qp === this.qp;
  }

  get isAwaiting(): boolean {
    return this.qp !== NONE;
  }

  /**
   * Whether a completion that came later than it was due may have been polled late.
   * @param expectedNs the time in which a request completes at the end of the window
   */
  isLate(lateNs: number, expectedNs: number): boolean {
    return lateNs > (this.ns > 0 ? this.ns : LATE * expectedNs);
  }

  /**
   * A completion may have been polled late. The next one will show it.
   * @param usedPart the part of the link that was used nevertheless
   * @param eachNs the average time between two completions of the queue pair
   * @param pieceNs the time for which the link carries a piece
   */
  suspect(
    qp: number,
    {
      lateNs,
      usedPart,
      eachNs,
      pieceNs,
    }: { lateNs: number; usedPart: number; eachNs: number; pieceNs: number },
    nowNs: number,
  ): void {
    this.qp = qp;
    this.lateNs = lateNs;
    this.usedPart = usedPart;
    this.untilNs = nowNs + Math.min(AT_ONCE * eachNs, Math.max(AT_ONCE * pieceNs, POLLS_NS));
  }

  /** The next completion. Returns whether the one before was polled late. */
  next(nowNs: number): boolean {
    this.qp = NONE;
    if (nowNs > this.untilNs) return false;
    this.heldUntilNs = nowNs + HOLD_NS;
    if (this.usedPart < BUSY) this.ns = Math.min(MOST_NS, Math.max(this.ns, this.lateNs));
    return true;
  }

  /**
   * Forgets that polls were late if they have not been so for some time. Returns whether `ns` has changed.
   * @param lateNs how late a completion was; `expectedNs` as in `isLate`
   */
  expire(lateNs: number, expectedNs: number, nowNs: number): boolean {
    const isStillLate = lateNs > STILL * this.ns;
    if (this.ns === 0 || (nowNs < this.heldUntilNs && !isStillLate)) return false;
    this.heldUntilNs = nowNs + HOLD_NS;
    if (isStillLate) return false;
    // So little would make no difference.
    this.ns = this.ns < expectedNs - this.ns ? 0 : this.ns / 2;
    return true;
  }
}
