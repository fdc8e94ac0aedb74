/**
 * Keeps the pieces of a queue pair apart with 0_WAITs while much is in flight. The device serves its queue pairs round
 * robin, so that long queues would otherwise fill its buffer, where small messages wait. With 0_WAITs, the pieces of all
 * queue pairs reach the link in the order and at the times at which it can send them.
 */
import { fitColumn } from '../../shim/tables.ts';

/** The link is planned for this many times as long as pieces take, so that its buffer does not fill little by little. */
const APART = 1.01;

/** What is known of a device. */
export interface Pipeline {
  /** The rate of the link, in bytes on the wire. */
  readonly linkPerNs: number;
  /** Time for which a message occupies its queue pair; 0: unknown. */
  readonly gapNs: number;
  /** Time that a 0_WAIT takes; 0: unknown, or the device has none. */
  readonly waitStepNs: number;
  /** What the device buffers in front of the link; 0: unknown. */
  readonly fifoBytes: number;
}

/** Words of the link: until when it is planned, and what all had sent when this was computed. */
const PLANNED = 0;
const SENT = 1;

/** The distances between the pieces of queue pairs. */
export class Spacing {
  private readonly link = new Float64Array(2);
  /** By queue pair: when it will have processed its last piece. */
  private endsNs: Float64Array = new Float64Array(64);

  /** A queue pair begins. */
  reset(qp: number): void {
    this.endsNs = fitColumn(this.endsNs, qp);
    this.endsNs[qp] = 0;
  }

  /**
   * The number of 0_WAITs before the next piece of a queue pair.
   * @param sentBytes what all have sent, on the wire
   * @param pieceBytes length of the piece
   */
  waits(qp: number, nowNs: number, sentBytes: number, pieceBytes: number, of: Pipeline): number {
    const { link, endsNs } = this;
    const plannedNs = link[PLANNED] + (APART * (sentBytes - link[SENT])) / of.linkPerNs;
    link[PLANNED] = Math.max(plannedNs, nowNs);
    link[SENT] = sentBytes;
    const startsNs = Math.max(endsNs[qp], nowNs);
    const count = Math.max(0, Math.floor((link[PLANNED] - startsNs) / of.waitStepNs));
    // What the buffer has no room for keeps the queue pair busy.
    const busyNs = Math.max(of.gapNs, (pieceBytes - of.fifoBytes) / of.linkPerNs);
    endsNs[qp] = startsNs + count * of.waitStepNs + busyNs;
    return count;
  }
}
