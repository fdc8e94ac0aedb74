/**
 * Chooses the length of pieces so that a whole number of them fills the window. With pieces of a fixed length, up to one
 * piece more than needed would be in flight, and short messages would wait for it at the link.
 */

/** Messages shorter than a piece take a part of the window, which is measured over this many bytes on the wire. */
const SAMPLE_BYTES = 65_536;
/** How much of the former measurement remains. */
const KEPT = 0.75;
/** Pieces are not shortened below this part of the longest: each has its headers, and takes its time in the device. */
const LEAST_PART = 0.75;

/** The traffic of one direction, as far as the length of pieces depends on it. */
export class PieceLength {
  /** The parts of recent traffic, in bytes on the wire, that passed, and that were messages shorter than a piece. */
  passedPart = 0;
  private shortPart = 0;
  private passedBytes = 0;
  private shortBytes = 0;
  private countedBytes = 0;

  /** A message that does not wait for the window was sent. */
  passed(wireBytes: number): void {
    this.passedBytes += wireBytes;
    this.countedBytes += wireBytes;
  }

  /** A message that waited, or a piece of one, was sent. */
  issued(wireBytes: number, isPiece: boolean): void {
    if (!isPiece) this.shortBytes += wireBytes;
    this.countedBytes += wireBytes;
  }

  /** Measures again after enough bytes. Returns whether it did. */
  update(): boolean {
    if (this.countedBytes < SAMPLE_BYTES) return false;
    const part = (1 - KEPT) / this.countedBytes;
    this.passedPart = KEPT * this.passedPart + part * this.passedBytes;
    this.shortPart = KEPT * this.shortPart + part * this.shortBytes;
    this.passedBytes = this.shortBytes = this.countedBytes = 0;
    return true;
  }

  /**
   * The length of pieces, in bytes of data.
   * @param windowBytes the window, in bytes on the wire
   * @param longestBytes the longest piece, and `wireBytes` its length on the wire
   */
  fit(windowBytes: number, longestBytes: number, wireBytes: number): number {
    const room = windowBytes * (1 - this.passedPart - this.shortPart);
    const count = Math.max(1, Math.ceil(room / wireBytes));
    const part = Math.max(LEAST_PART, Math.min(1, room / (count * wireBytes)));
    return Math.ceil(longestBytes * part);
  }
}
