/**
 * An egress port with one in-order FIFO shared by all queue pairs of a host. Packets are admitted one at a
 * time, in the order of the scheduler (round.ts). The wire drains the FIFO at a fixed rate, so a
 * packet's departure is known at admission. Its bytes are freed when its last bit has left.
 */

import * as K from '../kernel/event-kinds.ts';
import type { EventQueue } from '../kernel/event-queue.ts';
import type { NicParams } from '../profile/params.ts';
import type { Sender } from '../transport/qp.ts';
import * as B from './port.ts';
import { Port } from './port.ts';
import type { QpScheduler } from './qp-scheduler.ts';

// V8 folds constants of the module itself into the code, but loads imported ones at each use.
const { EV_ROOM } = K;
const { BUSY_UNTIL } = B;

/** Upper bound on the packets that the arrays hold before they first grow. */
const MAX_INITIAL_PACKETS = 1 << 16;

export class EgressPort extends Port {
  readonly scheduler: QpScheduler;
  private ends: Float64Array;
  private sizes: Int32Array;
  private mask: number;
  private first = 0;
  private last = 0;

  constructor(
    id: number,
    params: Readonly<NicParams>,
    gbps: number,
    clock: Float64Array,
    scheduler: QpScheduler,
  ) {
    super(id, params, gbps, clock, scheduler.fifoBytes);
    this.scheduler = scheduler;
    let capacity = 2;
    while (capacity < MAX_INITIAL_PACKETS && capacity < this.fifoBytes / params.headerBytes + 2)
      capacity *= 2;
    this.mask = capacity - 1;
    this.ends = new Float64Array(capacity);
    this.sizes = new Int32Array(capacity);
  }

  get lastBytes(): number {
    return this.sizes[(this.last - 1) & this.mask];
  }

  schedulerOf(): QpScheduler {
    return this.scheduler;
  }

  began(sender: Sender): void {
    this.scheduler.began?.(sender);
  }

  join(sender: Sender): void {
    this.scheduler.join(sender);
  }

  remove(sender: Sender): void {
    this.scheduler.ended(sender);
  }

  /** Schedules an event for when the packet will fit. */
  fits(_cls: number, bytes: number, events: EventQueue): boolean {
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

  /**
   * Admits a packet that may not leave before `notBefore[0]`. Afterwards, busyUntil is the time at which its
   * last bit leaves.
   */
  admit(bytes: number, notBefore: Float64Array): void {
    if (((this.last - this.first) | 0) > this.mask) this.grow();
    let start = this.clock[0];
    if (this.times[BUSY_UNTIL] > start) start = this.times[BUSY_UNTIL];
    if (notBefore[0] > start) start = notBefore[0];
    const end = start + bytes * this.nsPerByte;
    this.times[BUSY_UNTIL] = end;
    this.bytesOut[0] += bytes;
    this.ends[this.last & this.mask] = end;
    this.sizes[this.last & this.mask] = bytes;
    this.last = (this.last + 1) | 0;
    this.used = (this.used + bytes) | 0;
  }

  /** Acknowledgements are admitted without room, so the arrays can overflow. */
  private grow(): void {
    const size = (this.mask + 1) * 2;
    const ends = new Float64Array(size);
    const sizes = new Int32Array(size);
    for (let i = this.first; i !== this.last; i = (i + 1) | 0) {
      ends[i & (size - 1)] = this.ends[i & this.mask];
      sizes[i & (size - 1)] = this.sizes[i & this.mask];
    }
    this.ends = ends;
    this.sizes = sizes;
    this.mask = size - 1;
  }

  /** Frees the bytes of packets that have left. */
  reclaim(): void {
    const nowNs = this.clock[0];
    while (this.first !== this.last && this.ends[this.first & this.mask] <= nowNs) {
      this.used = (this.used - this.sizes[this.first & this.mask]) | 0;
      this.first = (this.first + 1) | 0;
    }
  }
}
