/**
 * Chooses the class whose packet a stoppable port puts on the wire next. Each scheduler is one object with
 * these methods in a file of its own (strict-priority.ts, ets.ts), listed in make-scheduler.ts and params.ts.
 * qp-scheduler.ts chooses among the queue pairs of a class.
 */
import type { Sender } from '../transport/qp.ts';
import type { StoppablePort } from './stoppable-port.ts';

/** Number of service levels in verbs; 0 is the highest class. */
export const SERVICE_LEVELS = 16;

export interface ClassScheduler {
  /** Number of classes, at most 16. Service levels beyond the last class map to it. */
  readonly classes: number;
  /** The NIC knows that this sender has work. Its packets may come later, or never (see sendingLevel). */
  began(sender: Sender, cls: number): void;
  /**
   * The class whose first packet goes on the wire now, or -1 to keep the wire idle although a packet waits;
   * the port then asks again after each event.
   *
   * @param here bit c: the first packet of class c may leave now; never 0
   * @param ready bit c: class c has a packet and is not paused, but its payload may be missing
   * @param paused bit c: class c may not send
   */
  pick(port: StoppablePort, here: number, ready: number, paused: number): number;
  /** The first packet of the chosen class goes out. `empty`: its FIFO is empty now. */
  sent(cls: number, bytes: number, empty: boolean): void;
}

/** A single class: packets leave in order of arrival. */
export class SingleClass implements ClassScheduler {
  readonly classes = 1;

  began(): void {}

  pick(): number {
    return 0;
  }

  sent(): void {}
}
