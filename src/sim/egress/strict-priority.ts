/**
 * Strict priority. A class sends only while no higher class has a packet and no queue pair of a higher class
 * has an unsent request or response, not even one in its serial gap. That second rule is an assumption: the
 * scheduler sees queue pairs with work, not only ready packets. It is what lets a class of small messages,
 * which rarely has a packet waiting, shut out the lower classes. Work that is blocked for another reason (a
 * WAIT, a fence, RNR, a rate limit, a full window) blocks no other class, because it may itself wait for a
 * lower one.
 */
import type { Sender } from '../transport/qp.ts';
import { sendingLevel } from '../transport/request-info.ts';
import { type ClassScheduler, SERVICE_LEVELS } from './class-scheduler.ts';
import type { StoppablePort } from './stoppable-port.ts';

export class StrictPriority implements ClassScheduler {
  readonly classes = SERVICE_LEVELS;
  /** By class: senders that began something and have not been found idle since. */
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

  /** Whether a sender of a class still has something to send. Idle senders are removed from the list. */
  private isHeld(port: StoppablePort, cls: number): boolean {
    const holders = this.holders[cls];
    while (holders.length > 0) {
      const sender = holders[holders.length - 1];
      const level = sendingLevel(sender);
      if (level >= 0 && port.classOf(level) === cls) return true;
      holders.pop();
      sender.listedAsHolder = false;
      // The next datagram of a queue pair may belong to another class.
      if (level >= 0) this.began(sender, port.classOf(level));
    }
    return false;
  }
}
