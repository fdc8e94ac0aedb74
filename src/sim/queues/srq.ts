/** Shared receive queues: receives that several queue pairs take from, in the order of their posting. */
import * as C from '../../verbs/constants.ts';
import type { Qp } from '../transport/qp.ts';
import type { World } from '../world.ts';
import type { Cq } from './cq.ts';
import { copySlotBetween, WorkQueue } from './work-queue.ts';

export interface SrqOptions {
  number: number;
  host: number;
  pd: number;
  maxWr: number;
  maxSge: number;
  cq: Cq | null;
  xrcd: number;
}

export class Srq {
  /** What senders of an extended reliable connection name. */
  readonly number: number;
  /** XRC: its domain; else 0. */
  readonly xrcd: number;
  readonly host: number;
  readonly pd: number;
  readonly maxSge: number;
  /** XRC: where its receives complete. */
  readonly cq: Cq | null;
  /** The provider's name for it. */
  handle = 0;
  /** `freed` counts those that were taken. */
  queue: WorkQueue;
  /** An event is due when fewer receives than this are left; 0: not armed. */
  limit = 0;
  /** [0] when the receives that the NIC asked for are there. */
  readonly fetchedNs = new Float64Array(1);
  // Counters for the invariants: receives completed, and forgotten by a reset or destroyed queue pair.
  completed = 0;
  discarded = 0;

  constructor(o: SrqOptions) {
    this.number = o.number;
    this.host = o.host;
    this.pd = o.pd;
    this.maxSge = o.maxSge;
    this.cq = o.cq;
    this.xrcd = o.xrcd;
    this.queue = new WorkQueue(o.maxWr, o.maxSge, 0, o.pd);
  }

  /** Receives that nobody took yet. */
  get waiting(): number {
    return (this.queue.posted - this.queue.freed) | 0;
  }

  /** Gives the queue another size; false when more receives wait than that. */
  resize(maxWr: number): boolean {
    const old = this.queue;
    if (this.waiting > maxWr) return false;
    const queue = new WorkQueue(maxWr, this.maxSge, 0, this.pd);
    queue.open();
    queue.posted = queue.freed = old.freed;
    queue.fetched = old.fetched;
    while (queue.posted !== old.posted) {
      copySlotBetween(old, queue.posted, queue);
      queue.posted = (queue.posted + 1) | 0;
    }
    this.queue = queue;
    return true;
  }
}

/**
 * A queue pair that has no receive at hand takes one from its shared queue. False when there is none, or
 * when it has none to share.
 */
export function takeShared(world: World, qp: Qp): boolean {
  const { srq, rq } = qp;
  if (srq === null || srq.waiting === 0) return false;
  const { queue } = srq;
  if (rq.extWords < queue.extWords) rq.widen(queue.extWords);
  rq.open();
  rq.pd = srq.pd;
  copySlotBetween(queue, queue.freed, rq);
  rq.posted = (rq.posted + 1) | 0;
  qp.posted++;
  qp.sharedSeq = queue.freed;
  queue.freed = (queue.freed + 1) | 0;
  if (srq.limit > srq.waiting) {
    srq.limit = 0;
    world.raise(C.IBV_EVENT_SRQ_LIMIT_REACHED, srq);
  }
  return true;
}
