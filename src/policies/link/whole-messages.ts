/**
 * Messages that cannot be cut, and are longer than the window. The device sends other messages in turns with them in any
 * case, and no part of them is known to have been sent before all of it has.
 */
import { fitColumn } from '../../shim/tables.ts';

/** Such a message counts at most this part of the window while no short messages pass, so that the next one follows at once. */
const WINDOW_PART = 0.5;
/** Its queue pair may go without a completion for so many times as long as the link takes for it, within a limit. */
const STALL_TIMES = 4;
const MOST_STALL_NS = 1e7;

/** Whole messages in one direction of a link. */
export class WholeMessages {
  /** The queue pair that sent the last one, and for how long it may go without a completion. */
  last = 0;
  stallNs = 0;
  /** When the last one was sent. */
  sinceNs = 0;
  /** By queue pair: 1 if its last request was one. */
  private isLast: Uint8Array = new Uint8Array(64);

  /** A queue pair begins. */
  reset(qp: number): void {
    this.isLast = fitColumn(this.isLast, qp);
    this.isLast[qp] = 0;
  }

  /** A queue pair has sent a request. @param link the link that carries it */
  sent(qp: number, isWhole: boolean, bytes: number, link: { readonly linkPerNs: number }): void {
    this.isLast[qp] = isWhole ? 1 : 0;
    if (!isWhole) return;
    this.last = qp;
    this.stallNs = Math.min(MOST_STALL_NS, (STALL_TIMES * bytes) / link.linkPerNs);
  }

  /** Whether the last request of a queue pair was one. */
  has(qp: number): boolean {
    return this.isLast[qp] === 1;
  }

  /** The part that counts of what a queue pair with one has in flight. @param isQuiet whether nothing short passes */
  countedPart(bytes: number, windowBytes: number, isQuiet: boolean): number {
    return isQuiet ? Math.min(1, (WINDOW_PART * windowBytes) / bytes) : 1;
  }
}
