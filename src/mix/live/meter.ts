/** Counts what one application did in real time. Its payload counts when the completion is polled. */
import { CLOSE, END, Meter, OPEN } from '../meter.ts';

export class LiveMeter extends Meter {
  /** Messages whose contents were checked. */
  verified = 0;
  /** One sentence per message that did not match, for the first few. */
  readonly mismatches: string[] = [];
  private bytes = 0;
  private bytesInWindow = 0;

  /** Counts the payload of a completion that was polled at times[END]. */
  countArrived(bytes: number): void {
    const { times } = this;
    this.bytes += bytes;
    if (times[END] >= times[OPEN] && times[END] <= times[CLOSE]) this.bytesInWindow += bytes;
  }

  override deliveredBytes(): number {
    return this.bytes;
  }

  override get windowBytes(): number {
    return this.bytesInWindow;
  }
}
