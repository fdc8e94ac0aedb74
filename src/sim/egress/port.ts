/** What every egress port has: a round of senders, a wire of one rate, and packets on their way. */

import { EV_ARRIVE } from '../kernel/event-kinds.ts';
import type { EventQueue } from '../kernel/event-queue.ts';
import { Flight } from '../network/flight.ts';
import type { NicParams } from '../profile/params.ts';
import type { Sender } from '../transport/qp.ts';

// Indexes of Port.times.
export const BUSY_UNTIL = 0;
const ONE_WAY = 1;
/** Of stoppable ports: when it looks again at a packet whose payload was not there. */
export const WAKE = 2;

export abstract class Port {
  readonly id: number;
  /** Room for the packets of all queue pairs (or of a class), with headers, until their last bit has left. */
  readonly fifoBytes: number;
  readonly nsPerByte: number;
  /** Bytes in the port that have not left. */
  used = 0;
  /** An event is due when there is room for the packet whose turn it is. */
  waiting = false;
  /** It is on the list of ports that have something to do when the current event is done. */
  kicked = false;
  /** [0] bytes that it has sent. */
  readonly bytesOut = new Float64Array(1);
  /** BUSY_UNTIL, ONE_WAY, WAKE. */
  protected readonly times = new Float64Array(3);
  /** [0] now. */
  protected readonly clock: Float64Array;
  private readonly flight = new Flight();

  constructor(id: number, params: Readonly<NicParams>, gbps: number, clock: Float64Array) {
    this.id = id;
    this.clock = clock;
    this.times[ONE_WAY] = params.propagationNs + params.rxNs;
    this.fifoBytes = params.egressFifoBytes;
    this.nsPerByte = 8 / gbps;
  }

  /** A sender has a packet: it joins the round, if it is not in it. */
  abstract join(sender: Sender): void;

  /** The sender is no more. */
  abstract remove(sender: Sender): void;

  /** Brings `used` up to date. */
  abstract reclaim(): void;

  /** Size of the packet that was put on the wire last. */
  abstract get lastBytes(): number;

  /** What follows the cable is this far from its beginning. */
  setOneWay(delayNs: number): void {
    this.times[ONE_WAY] = delayNs;
  }

  /** When the packet that was put on the wire last has left. */
  get busyUntil(): number {
    return this.times[BUSY_UNTIL];
  }

  /** Whether a packet that may leave at `dueNs[0]` keeps the wire waiting for nothing: it is not free before. */
  isBusyUntil(dueNs: Float64Array): boolean {
    return this.times[BUSY_UNTIL] >= dueNs[0];
  }

  /** Sends the packet that was put on the wire last on its way: it arrives after those sent before it. */
  send(p: number, events: EventQueue): void {
    events.due[0] = this.times[BUSY_UNTIL] + this.times[ONE_WAY];
    events.reserve();
    this.flight.add(p, events.due);
    if (this.flight.count === 1) events.insert(EV_ARRIVE, this.id, 0, 0);
  }

  /** The packet that is at its destination now. */
  arrived(events: EventQueue): number {
    const p = this.flight.take(events.due);
    if (this.flight.count > 0) events.insert(EV_ARRIVE, this.id, 0, 0);
    return p;
  }
}
