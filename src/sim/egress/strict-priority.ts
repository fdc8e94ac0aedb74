/**
 * Strict priority. A class sends only when no higher one has a packet, and no queue pair of a higher one holds
 * a posted request, or a response, that is not sent: not even one that is in its serial gap. The latter is an
 * assumption: it says that the scheduler sees queue pairs with work, not only packets that are ready, and it is what
 * makes a class of small messages, which never has a packet waiting for long, shut the lower ones out. What cannot
 * be sent yet for another reason (a WAIT, a fence, RNR, a rate limit, a full window) holds nobody up: a request may
 * wait for one of a lower class.
 */
import { type Sender, sendingLevel } from '../transport/qp.ts';
import { type ClassScheduler, SERVICE_LEVELS } from './class-scheduler.ts';
import type { StoppablePort } from './stoppable-port.ts';

export class StrictPriority implements ClassScheduler {
  readonly classes = SERVICE_LEVELS;
  /** By class: senders that began something and were not found idle since. */
  private readonly holders: Sender[][] = Array.from({ length: SERVICE_LEVELS }, () => []);

  began(sender: Sender, cls: number): void {
    if (sender.listedAsHolder) return;
    sender.listedAsHolder = true;
    this.holders[cls].push(sender);
  }

  pick(port: StoppablePort, here: number, ready: number, paused: number): number {
    const highest = 31 - Math.clz32(ready & -ready);
    for (let cls = 0; cls < highest; cls++) {
      if (((paused >>> cls) & 1) === 0 && this.isHeld(port, cls)) return -1;
    }
    return ((here >>> highest) & 1) !== 0 ? highest : -1;
  }

  sent(): void {}

  /** Whether somebody of a class still has something to send; those that have not are taken off the list. */
  private isHeld(port: StoppablePort, cls: number): boolean {
    const holders = this.holders[cls];
    while (holders.length > 0) {
      const sender = holders[holders.length - 1];
      const level = sendingLevel(sender);
      if (level >= 0 && port.classOf(level) === cls) return true;
      holders.pop();
      sender.listedAsHolder = false;
      // The next datagram of a queue pair may be of another class.
      if (level >= 0) this.began(sender, port.classOf(level));
    }
    return false;
  }
}
