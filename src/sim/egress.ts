/**
 * An egress port: one in-order FIFO that all queue pairs of a host share. Packets are admitted one at a
 * time, round robin over the senders that have one ready (a sender with more joins the tail); the wire
 * drains the FIFO at its rate. Room comes back when a packet's last bit has left.
 */
import type { EventQueue } from './events.ts';
import { EV_ROOM } from './kinds.ts';
import type { Sender } from './qp.ts';

const BUSY_UNTIL = 0;

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
  private readonly times = new Float64Array(1);
  private readonly ends: Float64Array;
  private readonly sizes: Int32Array;
  private readonly mask: number;
  private first = 0;
  private last = 0;

  constructor(id: number, fifoBytes: number, gbps: number, minPacketBytes: number) {
    this.id = id;
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
  fits(bytes: number, nowNs: number, events: EventQueue): boolean {
    this.reclaim(nowNs);
    const limit = this.fifoBytes - bytes;
    if (this.used <= limit || this.used === 0) return true;
    let used = this.used;
    let i = this.first;
    while (used > limit && used > 0) {
      used -= this.sizes[i & this.mask];
      i = (i + 1) | 0;
    }
    this.waiting = true;
    events.push(this.ends[(i - 1) & this.mask], EV_ROOM, this.id, 0, 0);
    return false;
  }

  /** Admits a packet that fits; afterwards busyUntil is when its last bit leaves. */
  admit(bytes: number, nowNs: number): void {
    const busy = this.times[BUSY_UNTIL];
    const end = Math.max(busy, nowNs) + bytes * this.nsPerByte;
    this.times[BUSY_UNTIL] = end;
    this.bytesOut[0] += bytes;
    this.ends[this.last & this.mask] = end;
    this.sizes[this.last & this.mask] = bytes;
    this.last = (this.last + 1) | 0;
    this.used = (this.used + bytes) | 0;
  }

  /** Forgets the packets that have left. */
  reclaim(nowNs: number): void {
    while (this.first !== this.last && this.ends[this.first & this.mask] <= nowNs) {
      this.used = (this.used - this.sizes[this.first & this.mask]) | 0;
      this.first = (this.first + 1) | 0;
    }
  }
}
