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

/** The part of the window in use, in one direction of a link. */
export class Backoff {
  part = 1;

  /**
   * A request has completed.
   * @param takenNs the time since it was issued
   * @param windowPieces pieces in a full window
   * @param isBusy whether the link was busy in the meantime, so that requests queue at the device
   */
  timed(takenNs: number, roundTripNs: number, windowPieces: number, isBusy: boolean): void {
    const queuedPieces = (this.part * windowPieces * (takenNs - roundTripNs)) / takenNs;
    if (isBusy || queuedPieces < FEW_PIECES) this.part = Math.min(1, this.part + STEP);
    else if (queuedPieces > MOST_PIECES) this.part = Math.max(LEAST_PART, this.part - STEP);
  }
}
