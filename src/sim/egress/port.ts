/** The common part of egress ports: a round of senders, a wire with one rate, and packets in flight. */

import { EV_ARRIVE } from '../kernel/event-kinds.ts';
import type { EventQueue } from '../kernel/event-queue.ts';
import { Flight } from '../network/flight.ts';
import type { NicParams } from '../profile/params.ts';
import type { Sender } from '../transport/qp.ts';

// Indexes of Port.times.
export const BUSY_UNTIL = 0;
const ONE_WAY = 1;
/** Stoppable ports: when to check again for a payload that was missing. */
export const WAKE = 2;

export abstract class Port {
  readonly id: number;
  /**
   * Room for the packets of all queue pairs (or of one class), headers included, until their last bit has
   * left.
   */
  readonly fifoBytes: number;
  readonly nsPerByte: number;
  /** Bytes in the port that have not left. */
  used = 0;
  /** An event is scheduled for when the packet at the head fits. */
  waiting = false;
  /** The port is on the list to serve when the current event is done. */
  kicked = false;
  /** [0] bytes sent. */
  readonly bytesOut = new Float64Array(1);
  /** BUSY_UNTIL, ONE_WAY, WAKE. */
  protected readonly times = new Float64Array(3);
  /** [0] the current time. */
  protected readonly clock: Float64Array;
  private readonly flight = new Flight();

  constructor(id: number, params: Readonly<NicParams>, gbps: number, clock: Float64Array) {
    this.id = id;
    this.clock = clock;
    this.times[ONE_WAY] = params.propagationNs + params.rxNs;
    this.fifoBytes = params.egressFifoBytes;
    this.nsPerByte = 8 / gbps;
  }

  /** A sender has a packet; it joins the round unless it is already in it. */
  abstract join(sender: Sender): void;

  /** Removes a destroyed sender. */
  abstract remove(sender: Sender): void;

  /** Brings `used` up to date. */
  abstract reclaim(): void;

  /** Size of the packet most recently put on the wire. */
  abstract get lastBytes(): number;

  /** Sets the delay from the last bit on the wire to the next station. */
  setOneWay(delayNs: number): void {
    this.times[ONE_WAY] = delayNs;
  }

  /** When the packet most recently put on the wire has left. */
  get busyUntil(): number {
    return this.times[BUSY_UNTIL];
  }

  /** Whether the wire is busy at least until `dueNs[0]`, so that a packet due then does not leave it idle. */
  isBusyUntil(dueNs: Float64Array): boolean {
    return this.times[BUSY_UNTIL] >= dueNs[0];
  }

  /** Sends the packet most recently put on the wire. It arrives after those sent before it. */
  send(p: number, events: EventQueue): void {
    events.due[0] = this.times[BUSY_UNTIL] + this.times[ONE_WAY];
    events.reserve();
    this.flight.add(p, events.due);
    if (this.flight.count === 1) events.insert(EV_ARRIVE, this.id, 0, 0);
  }

  /** Takes the packet that is at its destination now. */
  arrived(events: EventQueue): number {
    const p = this.flight.take(events.due);
    if (this.flight.count > 0) events.insert(EV_ARRIVE, this.id, 0, 0);
    return p;
  }
}
