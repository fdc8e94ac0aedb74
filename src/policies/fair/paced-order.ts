/** The order of tenants, with a limit on the rate of requests that wait, so that short messages find the link idle. */
import { NONE } from '../kit/run-queue.ts';
import { DominantOrder } from './dominant-order.ts';

/** Words: time per byte on the wire (0: no limit); when the request in service was chosen; when the next one may be. */
const NS_PER_BYTE = 0;
const CHOSEN_NS = 1;
const DUE_NS = 2;

/** The order of tenants, with a limit on their rate. */
export class PacedOrder extends DominantOrder {
  private readonly pace = new Float64Array(3);

  override get ignoresTime(): boolean {
    return this.pace[NS_PER_BYTE] === 0;
  }

  override get wakeNs(): number {
    return this.pace[NS_PER_BYTE] === 0 ? Number.POSITIVE_INFINITY : this.pace[DUE_NS];
  }

  /** @param nsPerByte time per byte on the wire; 0: as fast as the window allows */
  setPace(nsPerByte: number): void {
    this.pace[NS_PER_BYTE] = nsPerByte;
    this.pace[DUE_NS] = 0;
  }

  override next(nowNs = 0): number {
    const { pace } = this;
    if (pace[NS_PER_BYTE] === 0) return super.next(nowNs);
    if (nowNs < pace[DUE_NS]) return NONE;
    pace[CHOSEN_NS] = nowNs;
    return super.next(nowNs);
  }

  override charge(qp: number, wireBytes: number): void {
    super.charge(qp, wireBytes);
    const { pace } = this;
    pace[DUE_NS] = pace[CHOSEN_NS] + wireBytes * pace[NS_PER_BYTE];
  }
}
