/**
 * Which class's packet a stoppable port puts on the wire next. A scheduler is one object with these methods, one file
 * each (strict-priority.ts, ets.ts), named in schedulerOf() and in params.ts.
 *
 * A scheduler of hardware that decides by queue pair (Palos, Tassel) is one more file as well: a ReadyRing that says
 * which queue pair's packet is admitted next, on a port with one class; its FIFO is then short, as what is admitted
 * keeps its order. What it must know of queue pairs it learns from join(), leave() and began().
 */
import type { Sender } from '../transport/qp.ts';
import type { StoppablePort } from './stoppable-port.ts';

/** Service levels of verbs: 0 is the highest class. */
export const SERVICE_LEVELS = 16;

export interface ClassScheduler {
  /** Classes, at most 16; a higher service level belongs to the last one. */
  readonly classes: number;
  /** The NIC knows that this sender has something to send; its packets come later, or never (see sendingLevel). */
  began(sender: Sender, cls: number): void;
  /**
   * The class whose first packet goes on the wire now. -1: the wire stays idle although somebody has a packet; it is
   * asked again after each event.
   * @param here bit c: the first packet of class c may go out now; never 0
   * @param ready bit c: class c has a packet and is not paused, but perhaps its payload is not there yet
   * @param paused bit c: class c may not send
   */
  pick(port: StoppablePort, here: number, ready: number, paused: number): number;
  /** The packet of the class that was picked goes out. `empty`: it was the last one in the FIFO. */
  sent(cls: number, bytes: number, empty: boolean): void;
}

/** One class: its packets go out in the order in which they came in. */
export class SingleClass implements ClassScheduler {
  readonly classes = 1;

  began(): void {}

  pick(): number {
    return 0;
  }

  sent(): void {}
}
