/**
 * Reduces the window while requests queue in the network, as TCP Vegas does (Brakmo et al., SIGCOMM 1994): what the path
 * carries in a round trip stays in flight, and little more. Requests that take longer than a round trip although the link
 * is not busy queue at a switch or at their peer. Or their acknowledgements do, behind what the peer sends; then a shorter
 * window costs throughput, and is taken back.
 */

/** Pieces in the queues of the network from which on the window becomes shorter, and below which it becomes longer. */
const MOST_PIECES = 2;
const FEW_PIECES = 1;
/** One step, as a part of the window. */
const STEP = 1 / 16;
/** The shortest window. Hosts that do not reduce theirs would otherwise displace this one altogether. */
const LEAST_PART = 1 / 2;
/** If no request is timed while so many full windows are sent, what was found out is old: the window becomes longer again. */
const OLD_WINDOWS = 32;
/** A shorter window is kept if it costs at most this part of what it would if it were all that limits the link. */
const MOST_LOSS = 1 / 2;
/** Periods with a whole window after one that was too short, twice as many each time in a row. */
const REST_PERIODS = 8;
const MOST_REST_PERIODS = 4096;

/** The part of the window in use, in one direction of a link. */
export class Backoff {
  part = 1;
  /** [0] Bytes that had been sent when the part was last decided. An array, so that no number is allocated. */
  private readonly decided = Float64Array.of(0);
  /** The part of the link that a whole window uses; NaN: not measured yet. */
  private usedPart = Number.NaN;
  /** Whether the window has been whole since this period began. */
  private isWhole = true;
  private restPeriods = 0;
  private nextRestPeriods = REST_PERIODS;

  /** The part, now that so many bytes have been sent. */
  partAt(sentBytes: number, windowBytes: number): number {
    if (this.part === 1 || sentBytes - this.decided[0] < OLD_WINDOWS * windowBytes) return this.part;
    this.decided[0] = sentBytes;
    this.part = Math.min(1, this.part + STEP);
    return this.part;
  }

  /**
   * A request has completed.
   * @param takenNs the time since it was issued
   * @param windowPieces pieces in a full window
   * @param isBusy whether the link was busy in the meantime, so that requests queue at the device
   * @param sentBytes bytes that have been sent
   */
  timed(
    takenNs: number,
    roundTripNs: number,
    windowPieces: number,
    isBusy: boolean,
    sentBytes: number,
  ): void {
    this.decided[0] = sentBytes;
    if (this.restPeriods > 0 || Number.isNaN(this.usedPart)) return;
    const queuedPieces = (this.part * windowPieces * (takenNs - roundTripNs)) / takenNs;
    if (isBusy || queuedPieces < FEW_PIECES) this.part = Math.min(1, this.part + STEP);
    else if (queuedPieces > MOST_PIECES) this.part = Math.max(LEAST_PART, this.part - STEP);
    if (this.part < 1) this.isWhole = false;
  }

  /** A period is over in which requests waited for the window. @param usedPart the part of the link that was used */
  endPeriod(usedPart: number): void {
    if (this.isWhole) {
      this.usedPart = usedPart;
      if (this.restPeriods > 0) this.restPeriods--;
    } else if (usedPart < this.usedPart * (1 - MOST_LOSS * (1 - this.part))) {
      this.part = 1;
      this.restPeriods = this.nextRestPeriods;
      this.nextRestPeriods = Math.min(2 * this.nextRestPeriods, MOST_REST_PERIODS);
    } else this.nextRestPeriods = REST_PERIODS;
    this.isWhole = this.part === 1;
  }
}
