/**
 * When to request completions: for each piece, of one message or of several short ones, and at the end of a turn.
 * Otherwise the device reports many short messages together, and the window stays full for too long.
 */
import { fitColumn } from '../../shim/tables.ts';
import { NONE } from '../kit/run-queue.ts';

/** The reports of one direction of a link. */
export class Reports {
  /** Messages in a row of the queue pair that was served last. */
  inRow = 0;
  private last = NONE;
  /** By queue pair: bytes since its last signaled request, headers included. */
  private unreported: Float64Array = new Float64Array(64);

  /** A queue pair begins. */
  reset(qp: number): void {
    this.unreported = fitColumn(this.unreported, qp);
    this.unreported[qp] = 0;
  }

  /** A request was issued. @param bytes of its message, and its headers */
  issued(qp: number, bytes: number): void {
    if (qp !== this.last) {
      this.last = qp;
      this.inRow = 0;
    }
    this.unreported[qp] += bytes;
    this.inRow++;
  }

  /** Whether to request a completion. @param leastBytes bytes after which one is due; `isLast`: at the end of a turn */
  isDue(qp: number, leastBytes: number, isLast: boolean): boolean {
    if (this.unreported[qp] < leastBytes && !isLast) return false;
    this.unreported[qp] = 0;
    if (isLast) this.inRow = 0;
    return true;
  }
}
