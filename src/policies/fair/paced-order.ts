/** The order of tenants, with a limit on the rate of requests that wait, so that short messages find the link idle. */
import { NONE } from '../kit/run-queue.ts';
import { DominantOrder } from './dominant-order.ts';

/** The order of tenants, with a limit on their rate. */
export class PacedOrder extends DominantOrder {
  /** Time per byte on the wire (0: no limit), and when the request in service was chosen. */
  private readonly times = new Float64Array(2);

  /** @param nsPerByte time per byte on the wire; 0: as fast as the window allows */
  setPace(nsPerByte: number): void {
    this.times[0] = nsPerByte;
    this.ignoresTime = nsPerByte === 0;
    this.wakeNs = nsPerByte === 0 ? Number.POSITIVE_INFINITY : 0;
  }

  override next(nowNs = 0): number {
    if (this.ignoresTime) return super.next(nowNs);
    if (nowNs < this.wakeNs) return NONE;
    this.times[1] = nowNs;
    return super.next(nowNs);
  }

  override charge(qp: number, wireBytes: number): void {
    super.charge(qp, wireBytes);
    if (!this.ignoresTime) this.wakeNs = this.times[1] + wireBytes * this.times[0];
  }
}
