/**
 * Chooses the length of pieces so that a whole number of them fills the window. With pieces of a fixed length, up to one
 * piece more than needed would be in flight, and short messages would wait for it at the link. Messages of a few pieces
 * often end with a shorter one, so that no length fits: the link would be idle for a while each time. The more pieces
 * end messages, the less of the window is left unused.
 */
import { fitColumn } from '../../shim/tables.ts';

/** Messages shorter than a piece take a part of the window, which is measured over this many bytes on the wire. */
const SAMPLE_BYTES = 65_536;
/** How much of the former measurement remains. */
const KEPT = 0.75;
/** A single queue pair with short messages, one at a time, sends more than this part. */
const QUIET = 1e-4;
/** Pieces are not shortened below this part of the longest: each has its headers, and takes its time in the device. */
const LEAST_PART = 0.75;
/** How much of the former measurement of ends remains: messages of several queue pairs may end together. */
const ENDS_KEPT = 0.98;
/** What passes fills the gaps between pieces if it is at least this part, as its inverse. */
const PASSED_TIMES = 8;
/** Pieces are fitted while at most this part of them ends a message. */
const MOST_ENDS = 0.08;
/** How much less than the window may be in flight at most, in pieces. */
const LESS_PIECES = 0.5;
/** If fewer end a message, the time between messages is a small part. */
const LEAST_ENDS = 1 / 16;

/** The length of pieces when a message is cut evenly. @param mostBytes what a piece may have at most */
export function evenBytes(leftBytes: number, mostBytes: number): number {
  return Math.ceil(leftBytes / Math.max(1, Math.ceil(leftBytes / mostBytes)));
}

/** The longest piece, in bytes of data and on the wire. */
interface LongestPiece {
  readonly longestBytes: number;
  readonly longestWireBytes: number;
}

/** The traffic of one direction, as far as the length of pieces depends on it. */
export class PieceLength {
  /** The parts of recent traffic, in bytes on the wire, that passed, and that were messages shorter than a piece. */
  passedPart = 0;
  private shortPart = 0;
  private passedBytes = 0;
  private shortBytes = 0;
  private countedBytes = 0;
  /** The part of pieces that end a message, and how many did since the last measurement. */
  private endsPart = 0;
  private ends = 0;
  /** By queue pair: 1 if a piece of its oldest held message was sent. */
  private isWithin: Uint8Array = new Uint8Array(64);

  /** Whether hardly anything passes, for which what is in flight would be in the way. */
  get isQuiet(): boolean {
    return this.passedPart < QUIET;
  }

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

  /** Forgets what a queue pair has sent. */
  reset(qp: number): void {
    this.isWithin = fitColumn(this.isWithin, qp);
    this.isWithin[qp] = 0;
  }

  /** A queue pair has sent some of the bytes that were left of its oldest message. */
  cut(qp: number, leftBytes: number, bytes: number): void {
    if (leftBytes === bytes && this.isWithin[qp] === 1) this.ends++;
    this.isWithin[qp] = leftBytes > bytes ? 1 : 0;
  }

  /**
   * How much of the pieces that are added for the ends of messages is needed. After the last piece of a message that takes
   * a receive, two more requests follow at once, and the device fetches them from memory, which takes time.
   */
  endedPart = 0;

  /** Whether a whole number of pieces can fill the window. */
  isFitting = true;

  /**
   * How much less than the window may be in flight before the next piece is sent, in pieces: half of one, so that as much
   * as the window is in flight on average. The more pieces end messages, the longer the link would be idle, unless much
   * else passes. Messages shorter than a piece hardly exceed the window.
   */
  lessPieces = LESS_PIECES;

  /** Measures again after enough bytes. Returns whether it did. @param pieceWireBytes the longest piece on the wire */
  update(pieceWireBytes: number): boolean {
    if (this.countedBytes < SAMPLE_BYTES) return false;
    const endsPart = (this.ends * pieceWireBytes) / this.countedBytes;
    this.endsPart = ENDS_KEPT * this.endsPart + (1 - ENDS_KEPT) * endsPart;
    this.ends = 0;
    const part = (1 - KEPT) / this.countedBytes;
    this.passedPart = KEPT * this.passedPart + part * this.passedBytes;
    this.shortPart = KEPT * this.shortPart + part * this.shortBytes;
    this.passedBytes = this.shortBytes = this.countedBytes = 0;
    this.endedPart = Math.min(1, this.endsPart / LEAST_ENDS);
    this.isFitting = this.endsPart <= MOST_ENDS;
    const most = Math.max(1 - this.endsPart / MOST_ENDS, Math.min(1, PASSED_TIMES * this.passedPart));
    const waitedPart = 1 - this.passedPart;
    this.lessPieces =
      waitedPart > this.shortPart ? LESS_PIECES * most * (1 - this.shortPart / waitedPart) : 0;
    return true;
  }

  /**
   * The length of pieces, in bytes of data.
   * @param puller has the window, in bytes on the wire. An object, as in stretch.ts
   */
  fit(puller: { readonly windowBytes: number }, { longestBytes, longestWireBytes }: LongestPiece): number {
    if (!this.isFitting) return longestBytes;
    const room = puller.windowBytes * (1 - this.passedPart - this.shortPart);
    const count = Math.max(1, Math.ceil(room / longestWireBytes));
    const part = Math.max(LEAST_PART, Math.min(1, room / (count * longestWireBytes)));
    return Math.ceil(longestBytes * part);
  }
}
