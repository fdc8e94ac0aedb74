/**
 * Reduces the window while requests queue in the network, as TCP Vegas does (Brakmo et al., SIGCOMM 1994): what the path
 * carries in a round trip stays in flight, and little more. Requests that take longer than a round trip although the link
 * is not busy queue at a switch or at their peer.
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

/** The part of the window in use, in one direction of a link. */
export class Backoff {
  part = 1;
  /** [0] Bytes that had been sent when the part was last decided. An array, so that no number is allocated. */
  private readonly decided = Float64Array.of(0);

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
    const queuedPieces = (this.part * windowPieces * (takenNs - roundTripNs)) / takenNs;
    if (isBusy || queuedPieces < FEW_PIECES) this.part = Math.min(1, this.part + STEP);
    else if (queuedPieces > MOST_PIECES) this.part = Math.max(LEAST_PART, this.part - STEP);
  }
}
