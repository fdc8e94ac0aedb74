/**
 * An egress port that chooses the next packet at each departure: it has one FIFO per class and skips paused
 * classes. A pause takes effect after the packet on the wire and loses nothing. Each departure costs an
 * event, which the plain port (fifo-port.ts) saves because its order is known at admission.
 *
 * The port is independent of the world. Its owner calls enqueue() to fill it, begin() whenever
 * a packet may go out (after enqueue, resume and departed, and at EV_WIRE of the port), send() with the
 * packet from begin() unless that is lost, and departed() at EV_DEPART of the port. For hosts' ports,
 * round.ts and departures.ts do all that.
 */

import { EV_DEPART, EV_WIRE } from '../kernel/event-kinds.ts';
import type { EventQueue } from '../kernel/event-queue.ts';
import type { NicParams } from '../profile/params.ts';
import type { Sender } from '../transport/qp.ts';
import type { ClassScheduler } from './class-scheduler.ts';
import { BUSY_UNTIL, Port, WAKE } from './port.ts';
import type { QpScheduler } from './qp-scheduler.ts';

/** For pause() and resume(): all classes. */
export const ALL_CLASSES = -1;

export class StoppablePort extends Port {
  readonly classScheduler: ClassScheduler;
  private readonly makeScheduler: () => QpScheduler;
  /**
   * The port is on the list of ports that have a packet but may not send it; they are tried again after each
   * event.
   */
  held = false;
  /** [0] bytes enqueued and not discarded. */
  readonly bytesIn = new Float64Array(1);
  /** Created when a class is first used. */
  private readonly queues: (ClassQueue | null)[];
  /** Bit c: class c has a packet; class c is paused. */
  private filled = 0;
  private paused = 0;
  /** The packet on the wire: its class (-1: none) and size. */
  private wireClass = -1;
  private wireBytes = 0;

  constructor(
    id: number,
    params: Readonly<NicParams>,
    gbps: number,
    clock: Float64Array,
    classScheduler: ClassScheduler,
    makeScheduler: () => QpScheduler,
  ) {
    super(id, params, gbps, clock);
    this.classScheduler = classScheduler;
    this.makeScheduler = makeScheduler;
    this.times[WAKE] = Number.POSITIVE_INFINITY;
    this.queues = Array.from({ length: classScheduler.classes }, () => null);
  }

  /** The class of a service level. */
  classOf(sl: number): number {
    return Math.min(sl, this.queues.length - 1);
  }

  schedulerOf(cls: number): QpScheduler | null {
    return this.queues[cls]?.scheduler ?? null;
  }

  get classes(): number {
    return this.queues.length;
  }

  join(sender: Sender): void {
    this.queue(this.classOf(sender.qp.sl)).scheduler.join(sender);
  }

  remove(sender: Sender): void {
    for (const queue of this.queues) queue?.scheduler.ended(sender);
  }

  began(sender: Sender, level: number): void {
    const cls = this.classOf(level);
    this.classScheduler.began(sender, cls);
    this.queue(cls).scheduler.began?.(sender);
  }

  /** An empty FIFO accepts any packet. */
  fits(cls: number, bytes: number): boolean {
    const { used, scheduler } = this.queue(cls);
    return used === 0 || used + bytes <= (scheduler.fifoBytes ?? this.fifoBytes);
  }

  /**
   * Appends a packet to the FIFO of a class, regardless of room. It may not leave before `notBefore[0]`, and
   * packets behind it in its class wait for it.
   */
  enqueue(p: number, bytes: number, cls: number, notBefore: Float64Array): void {
    this.queue(cls).add(p, bytes, notBefore);
    this.filled |= 1 << cls;
    this.used += bytes;
    this.bytesIn[0] += bytes;
  }

  get lastBytes(): number {
    return this.wireBytes;
  }

  /** Bytes of a class that have not left. */
  queuedBytes(cls: number): number {
    return this.queues[cls]?.used ?? 0;
  }

  /** Size of the first packet of a non-empty class. */
  headBytes(cls: number): number {
    return this.queue(cls).headBytes();
  }

  /**
   * Puts the next packet on the wire if the wire is free and a packet may go. EV_DEPART and busyUntil give
   * its departure. Returns the packet, or -1.
   */
  begin(events: EventQueue): number {
    const ready = this.filled & ~this.paused;
    if (this.wireClass >= 0 || ready === 0) return -1;
    const here = this.payloadHere(ready, events);
    if (here === 0) return -1;
    const cls = this.classScheduler.pick(this, here, ready, this.paused);
    if (cls < 0) return -1;
    const queue = this.queue(cls);
    const bytes = queue.headBytes();
    const p = queue.take();
    if (queue.count === 0) this.filled &= ~(1 << cls);
    this.classScheduler.sent(cls, bytes, queue.count === 0);
    this.wireClass = cls;
    this.wireBytes = bytes;
    this.times[BUSY_UNTIL] = this.clock[0] + bytes * this.nsPerByte;
    events.due[0] = this.times[BUSY_UNTIL];
    events.push(EV_DEPART, this.id, 0, 0);
    return p;
  }

  /** The wire is free, but the scheduler holds back a packet that could go. */
  get isHeldBack(): boolean {
    return this.wireClass < 0 && (this.filled & ~this.paused) !== 0;
  }

  /**
   * Bit c: the payload of the first packet of ready class c has arrived. For the others, schedules an event
   * for their arrival.
   */
  private payloadHere(ready: number, events: EventQueue): number {
    const nowNs = this.clock[0];
    if (this.times[WAKE] <= nowNs) this.times[WAKE] = Number.POSITIVE_INFINITY;
    let here = ready;
    for (let left = ready; left !== 0; left &= left - 1) {
      const cls = 31 - Math.clz32(left & -left);
      const due = this.queue(cls).headDue();
      if (due <= nowNs) continue;
      here &= ~(1 << cls);
      if (due >= this.times[WAKE]) continue;
      this.times[WAKE] = due;
      events.due[0] = due;
      events.push(EV_WIRE, this.id, 0, 0);
    }
    return here;
  }

  /** The last bit of the packet on the wire has left. Returns its class, which has room again. */
  departed(): number {
    const cls = this.wireClass;
    this.queue(cls).used -= this.wireBytes;
    this.used -= this.wireBytes;
    this.bytesOut[0] += this.wireBytes;
    this.wireClass = -1;
    return cls;
  }

  /** Removes a packet that will never leave; -1 when only the packet on the wire is left. */
  discard(): number {
    if (this.filled === 0) return -1;
    const cls = 31 - Math.clz32(this.filled & -this.filled);
    const queue = this.queue(cls);
    const bytes = queue.headBytes();
    const p = queue.take();
    if (queue.count === 0) this.filled &= ~(1 << cls);
    queue.used -= bytes;
    this.used -= bytes;
    this.bytesIn[0] -= bytes;
    return p;
  }

  /** Pauses a class (default: all) after the packet on the wire. */
  pause(cls: number = ALL_CLASSES): void {
    this.paused |= this.bitsOf(cls);
  }

  /** Resumes a class (default: all). The owner calls begin() next. */
  resume(cls: number = ALL_CLASSES): void {
    this.paused &= ~this.bitsOf(cls);
  }

  isPaused(cls: number): boolean {
    return ((this.paused >>> cls) & 1) !== 0;
  }

  reclaim(): void {}

  private bitsOf(cls: number): number {
    return cls === ALL_CLASSES ? (1 << this.queues.length) - 1 : 1 << cls;
  }

  private queue(cls: number): ClassQueue {
    const queue = this.queues[cls];
    if (queue !== null) return queue;
    const made = new ClassQueue(this.makeScheduler());
    this.queues[cls] = made;
    return made;
  }
}

/** The packets of a class in order, and the scheduler of its senders. */
class ClassQueue {
  readonly scheduler: QpScheduler;
  /** Packets not yet on the wire. */
  count = 0;
  /** Bytes that have not left, including the packet on the wire. */
  used = 0;
  private first = 0;
  private mask = 63;
  /** Alternating packet and size. */
  private entries = new Int32Array(128);
  /** Earliest departure of each. */
  private dues = new Float64Array(64);

  constructor(scheduler: QpScheduler) {
    this.scheduler = scheduler;
  }

  add(p: number, bytes: number, notBefore: Float64Array): void {
    if (this.count > this.mask) this.grow();
    const at = (this.first + this.count) & this.mask;
    this.entries[2 * at] = p;
    this.entries[2 * at + 1] = bytes;
    this.dues[at] = notBefore[0];
    this.count = (this.count + 1) | 0;
    this.used = (this.used + bytes) | 0;
  }

  headBytes(): number {
    return this.entries[(this.first & this.mask) * 2 + 1];
  }

  headDue(): number {
    return this.dues[this.first & this.mask];
  }

  take(): number {
    const p = this.entries[(this.first & this.mask) * 2];
    this.first = (this.first + 1) | 0;
    this.count = (this.count - 1) | 0;
    return p;
  }

  private grow(): void {
    const entries = new Int32Array(this.entries.length * 2);
    const dues = new Float64Array(this.dues.length * 2);
    for (let i = 0; i < this.count; i++) {
      const from = (this.first + i) & this.mask;
      entries[2 * i] = this.entries[2 * from];
      entries[2 * i + 1] = this.entries[2 * from + 1];
      dues[i] = this.dues[from];
    }
    this.first = 0;
    this.mask = this.mask * 2 + 1;
    this.entries = entries;
    this.dues = dues;
  }
}
