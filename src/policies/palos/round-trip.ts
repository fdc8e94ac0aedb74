/**
 * The round trip of an idle device, measured with the traffic itself: the time from the issue of a request, while nothing
 * else was in flight, to its completion, without the time that its bytes take on the link. The shortest time counts for
 * each queue pair, because completions may be polled late; the longest of these counts for the device, because a window
 * that fills the way to the nearest peer does not fill the one to another.
 */
import { fitColumn } from '../../shim/tables.ts';
import { NONE } from '../kit/run-queue.ts';

/** Measures the round trip of one device. */
export class RoundTrip {
  /** The longest of the queue pairs' round trips, in ns; 0: not measured yet. */
  ns = 0;
  private readonly nsPerByte: number;
  /** By queue pair: its shortest time; 0: none. */
  private shortestNs: Float64Array = new Float64Array(64);
  private limit = 0;
  /** The queue pair whose request is being timed, since when, and its bytes on the wire. */
  private timed = NONE;
  private sinceNs = 0;
  private bytes = 0;

  constructor(bytesPerNs: number) {
    this.nsPerByte = 1 / bytesPerNs;
  }

  /** Whether a request is being timed. */
  get isTiming(): boolean {
    return this.timed !== NONE;
  }

  /** A request was issued while nothing else was in flight. Its completion will be reported at once. */
  begin(qp: number, wireBytes: number, nowNs: number): void {
    this.timed = qp;
    this.sinceNs = nowNs;
    this.bytes = wireBytes;
  }

  /** A completion of a queue pair has arrived. Returns whether the round trip has changed. */
  completed(qp: number, nowNs: number): boolean {
    if (qp !== this.timed) return false;
    this.timed = NONE;
    const takenNs = Math.max(1, nowNs - this.sinceNs - this.bytes * this.nsPerByte);
    this.shortestNs = fitColumn(this.shortestNs, qp);
    const { shortestNs } = this;
    const before = shortestNs[qp];
    if (before > 0 && takenNs >= before) return false;
    shortestNs[qp] = takenNs;
    this.limit = Math.max(this.limit, qp + 1);
    if (takenNs > this.ns) {
      this.ns = takenNs;
      return true;
    }
    return before === this.ns && this.findLongest();
  }

  /** The queue pair has been destroyed, or failed, or may have another peer now. */
  forget(qp: number): boolean {
    if (qp === this.timed) this.timed = NONE;
    if (qp >= this.limit || this.shortestNs[qp] === 0) return false;
    const before = this.shortestNs[qp];
    this.shortestNs[qp] = 0;
    return before === this.ns && this.findLongest();
  }

  private findLongest(): boolean {
    const before = this.ns;
    let longest = 0;
    for (let qp = 0; qp < this.limit; qp++) longest = Math.max(longest, this.shortestNs[qp]);
    // With the last queue pair, the device's value stays.
    if (longest > 0) this.ns = longest;
    return this.ns !== before;
  }
}
