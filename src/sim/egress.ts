/**
 * An egress port: one in-order FIFO that all queue pairs of a host share. Packets are admitted one at a
 * time, round robin over the senders that have one ready (a sender with more joins the tail); the wire
 * drains the FIFO at its rate. Room comes back when a packet's last bit has left.
 */
import type { EventQueue } from './events.ts';
import { EV_ARRIVE, EV_ROOM } from './kinds.ts';
import type { NicParams } from './params.ts';
import type { Sender } from './qp.ts';

// Indexes of EgressPort.times.
const BUSY_UNTIL = 0;
const ONE_WAY = 1;

export class EgressPort {
  readonly id: number;
  readonly fifoBytes: number;
  readonly nsPerByte: number;
  /** Bytes in the FIFO. */
  used = 0;
  head: Sender | null = null;
  private tail: Sender | null = null;
  /** An event is due when the head's packet fits. */
  waiting = false;
  /** Somebody joined since the last admission round. */
  kicked = false;
  bytesOut = new Float64Array(1);
  /** BUSY_UNTIL, ONE_WAY. */
  private readonly times = new Float64Array(2);
  /** [0] now. */
  private readonly clock: Float64Array;
  private readonly ends: Float64Array;
  private readonly sizes: Int32Array;
  private readonly mask: number;
  private first = 0;
  private last = 0;
  private readonly flight = new Flight();

  constructor(id: number, params: Readonly<NicParams>, gbps: number, clock: Float64Array) {
    const { egressFifoBytes: fifoBytes, headerBytes: minPacketBytes } = params;
    this.id = id;
    this.clock = clock;
    this.times[ONE_WAY] = params.oneWayNs;
    this.fifoBytes = fifoBytes;
    this.nsPerByte = 8 / gbps;
    let slots = 2;
    while (slots < fifoBytes / minPacketBytes + 2) slots *= 2;
    this.mask = slots - 1;
    this.ends = new Float64Array(slots);
    this.sizes = new Int32Array(slots);
  }

  /** When the last admitted packet has left. */
  get busyUntil(): number {
    return this.times[BUSY_UNTIL];
  }

  join(sender: Sender): void {
    if (sender.queued) return;
    sender.queued = true;
    if (this.tail === null) this.head = sender;
    else this.tail.next = sender;
    this.tail = sender;
  }

  /** Takes the head out of the round. */
  leave(): void {
    const sender = this.head as Sender;
    this.head = sender.next;
    if (this.head === null) this.tail = null;
    sender.next = null;
    sender.queued = false;
  }

  /** Whether a packet of this size fits now; if not, an event says when it does. */
  fits(bytes: number, events: EventQueue): boolean {
    this.reclaim();
    const limit = this.fifoBytes - bytes;
    if (this.used <= limit || this.used === 0) return true;
    let used = this.used;
    let i = this.first;
    while (used > limit && used > 0) {
      used -= this.sizes[i & this.mask];
      i = (i + 1) | 0;
    }
    this.waiting = true;
    events.due[0] = this.ends[(i - 1) & this.mask];
    events.push(EV_ROOM, this.id, 0, 0);
    return false;
  }

  /** Admits a packet that fits; afterwards busyUntil is when its last bit leaves. */
  admit(bytes: number): void {
    const nowNs = this.clock[0];
    const busy = this.times[BUSY_UNTIL];
    const end = Math.max(busy, nowNs) + bytes * this.nsPerByte;
    this.times[BUSY_UNTIL] = end;
    this.bytesOut[0] += bytes;
    this.ends[this.last & this.mask] = end;
    this.sizes[this.last & this.mask] = bytes;
    this.last = (this.last + 1) | 0;
    this.used = (this.used + bytes) | 0;
  }

  /** Sends the packet admitted last on its way: it arrives after those sent before it. */
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

  /** Forgets the packets that have left. */
  reclaim(): void {
    const nowNs = this.clock[0];
    while (this.first !== this.last && this.ends[this.first & this.mask] <= nowNs) {
      this.used = (this.used - this.sizes[this.first & this.mask]) | 0;
      this.first = (this.first + 1) | 0;
    }
  }
}

/**
 * Packets between a port and their destinations, in order. Only the first has an event in the queue; the
 * others keep the time and place that theirs will have.
 */
class Flight {
  count = 0;
  private first = 0;
  private mask = 63;
  private packets = new Int32Array(64);
  /** Time and place, by packet. */
  private dues = new Float64Array(128);

  add(p: number, due: Float64Array): void {
    if (this.count > this.mask) this.grow();
    const at = (this.first + this.count) & this.mask;
    this.packets[at] = p;
    this.dues[2 * at] = due[0];
    this.dues[2 * at + 1] = due[1];
    this.count = (this.count + 1) | 0;
  }

  /** Takes the first packet out; `due` becomes that of the next. */
  take(due: Float64Array): number {
    const p = this.packets[this.first & this.mask];
    this.first = (this.first + 1) | 0;
    this.count = (this.count - 1) | 0;
    const next = this.first & this.mask;
    due[0] = this.dues[2 * next];
    due[1] = this.dues[2 * next + 1];
    return p;
  }

  private grow(): void {
    const size = (this.mask + 1) * 2;
    const packets = new Int32Array(size);
    const dues = new Float64Array(size * 2);
    for (let i = 0; i < this.count; i++) {
      const from = (this.first + i) & this.mask;
      packets[i] = this.packets[from];
      dues[2 * i] = this.dues[2 * from];
      dues[2 * i + 1] = this.dues[2 * from + 1];
    }
    this.first = 0;
    this.mask = size - 1;
    this.packets = packets;
    this.dues = dues;
  }
}
