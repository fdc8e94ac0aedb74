/** What one application did in real time: its payload is counted when its completion is polled. */
import { CLOSE, END, Meter, OPEN } from '../meter.ts';

export class LiveMeter extends Meter {
  /** Messages that were looked at, and those that were not what was sent. */
  verified = 0;
  readonly mismatches: string[] = [];
  private bytes = 0;
  private bytesInWindow = 0;

  /** Payload of a completion that was polled at END. */
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
