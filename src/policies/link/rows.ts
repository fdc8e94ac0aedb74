/**
 * How many messages a queue pair processes at once. It takes a certain time for each (`gapNs`), so messages that are
 * shorter on the link than this queue there, and not at the link.
 */
import type { WindowOptions } from './window-options.ts';

/** Messages of one queue pair in flight in addition to those that it processes in a round trip. */
const SPARE_MESSAGES = 4;
/**
 * A queue pair processes one message after another, each in a certain time. Many messages in a row would therefore stay
 * in the window for longer than the spare pieces allow for: on average, half the time of the row.
 */
const ROW_PER_SPARE = 2;
/** A row of short messages goes in one post, because each takes time of the core, if it is at most this part of the window. */
const MOST_REFILL = 1 / 4;
/** Messages longer than this part of a piece go one in each post. */
const LEAST_ALONE = 1 / 4;

/** What a puller has in one post, and its window, in bytes on the wire. */
interface Refilled {
  readonly windowBytes: number;
  readonly loadBytes: number;
  refillBytes: number;
}

/** The messages of one queue pair in one direction of the link. */
export class Rows {
  /** The most messages that a queue pair may have in flight, and in a row before others have their turns. */
  mostMessages = 0;
  rowMessages = 0;
  private countedMessages = 0;
  /** Messages from this length on take longer on the link than in their queue pair, and do not form rows. */
  private rowBytes = 0;
  private gapNs = 0;
  private linkPerNs = 1;

  /** @param coveredNs the time that what is in flight must cover; `spareBytes`: what is in flight in addition to that */
  fit({ gapNs, linkPerNs, queuedMessages }: WindowOptions, coveredNs: number, spareBytes: number): void {
    this.gapNs = gapNs;
    this.linkPerNs = linkPerNs;
    this.countedMessages = Math.max(1, coveredNs / Math.max(gapNs, 1));
    this.mostMessages = Math.ceil(this.countedMessages) + SPARE_MESSAGES + queuedMessages;
    const rowNs = (ROW_PER_SPARE * spareBytes) / linkPerNs;
    this.rowBytes = gapNs * linkPerNs;
    this.rowMessages = Math.max(1, Math.floor(rowNs / Math.max(gapNs, 1)));
  }

  /**
   * Decides what goes in one post, because each post takes time of the core: a row of short messages.
   * @param bytes the length of the message that the puller has priced
   */
  fitRefill(puller: Refilled, bytes: number, longestPieceBytes: number): void {
    const mostBytes = puller.windowBytes * MOST_REFILL;
    if (this.isShort(bytes)) puller.refillBytes = Math.min(this.rowMessages * puller.loadBytes, mostBytes);
    else puller.refillBytes = bytes <= LEAST_ALONE * longestPieceBytes ? mostBytes : 0;
  }

  /** Whether messages of this length occupy their queue pair for longer than the link. */
  isShort(bytes: number): boolean {
    return bytes < this.rowBytes;
  }

  /**
   * The part of a queue pair's messages that count towards the window. The others wait in its own queue: those beyond
   * what it processes in a round trip, and, of a row of short ones, which complete together, each for the others.
   */
  countedPart(inflight: number, bytes: number, roundTripNs: number): number {
    const stepNs = this.gapNs - bytes / (inflight * this.linkPerNs);
    if (inflight < 2 || stepNs <= 0) return 1;
    const timePart = roundTripNs / (roundTripNs + (Math.min(inflight, this.rowMessages) - 1) * stepNs);
    return Math.min(timePart, this.countedMessages / inflight);
  }
}
