/** The common part of egress ports: senders and their scheduler, a wire with one rate, and packets in flight. */

import * as K from '../kernel/event-kinds.ts';
import type { EventQueue } from '../kernel/event-queue.ts';
import { Flight } from '../network/flight.ts';
import type { NicParams } from '../profile/params.ts';
import type { Sender } from '../transport/qp.ts';
import type { QpScheduler } from './qp-scheduler.ts';

// V8 folds constants of the module itself into the code, but loads imported ones at each use.
const { EV_ARRIVE, EV_WIRE } = K;

// Indexes of Port.times.
export const BUSY_UNTIL = 0;
const ONE_WAY = 1;
/** Stoppable ports: when to check again for a payload that was missing. */
export const WAKE = 2;
/** When a scheduler of queue pairs is to be asked again. */
const ASK = 3;

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
  /** Whether an event is scheduled for when the packet at the head fits. */
  waiting = false;
  /** Whether the port is on the list to serve when the current event is done. */
  kicked = false;
  /** [0] bytes sent. */
  readonly bytesOut = new Float64Array(1);
  /** BUSY_UNTIL, ONE_WAY, WAKE, ASK. */
  protected readonly times = new Float64Array(4);
  /** [0] the current time. */
  protected readonly clock: Float64Array;
  private readonly flight = new Flight();

  constructor(
    id: number,
    params: Readonly<NicParams>,
    gbps: number,
    clock: Float64Array,
    fifoBytes: number = params.egressFifoBytes,
  ) {
    this.id = id;
    this.clock = clock;
    this.times[ONE_WAY] = params.propagationNs + params.rxNs;
    this.fifoBytes = fifoBytes;
    this.nsPerByte = 8 / gbps;
  }

  /** The scheduler of a class; null: no sender has used the class. */
  abstract schedulerOf(cls: number): QpScheduler | null;

  /**
   * Whether a packet of this size fits into a class now. If not, the port is served again when it does.
   */
  abstract fits(cls: number, bytes: number, events: EventQueue): boolean;

  /** The NIC knows that a sender of this service level has work. */
  abstract began(sender: Sender, level: number): void;

  /** A sender has a packet; it joins the round unless it is already in it. */
  abstract join(sender: Sender): void;

  /** Removes a destroyed sender. */
  abstract remove(sender: Sender): void;

  /** Brings `used` up to date. */
  abstract reclaim(): void;

  /** Size of the packet most recently put on the wire. */
  abstract get lastBytes(): number;

  /** Serves the port again at `atNs`, because a scheduler holds back all senders until then. */
  wakeAt(atNs: number, events: EventQueue): void {
    const pendingNs = this.times[ASK];
    const nowNs = this.clock[0];
    if (atNs === Number.POSITIVE_INFINITY || (pendingNs > nowNs && pendingNs <= atNs)) return;
    this.times[ASK] = atNs;
    events.due[0] = atNs;
    events.push(EV_WIRE, this.id, 0, 0);
  }

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
