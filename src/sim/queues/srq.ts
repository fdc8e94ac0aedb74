/** Shared receive queues: several queue pairs take receives from them in posting order. */
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
  /** The number that senders of an extended reliable connection name. */
  readonly number: number;
  /** The XRC domain; 0 without one. */
  readonly xrcd: number;
  readonly host: number;
  readonly pd: number;
  readonly maxSge: number;
  /** XRC: the queue on which its receives complete. */
  readonly cq: Cq | null;
  /** The provider's handle. */
  handle = 0;
  /** `freed` counts the receives taken. */
  queue: WorkQueue;
  /** An event is raised when fewer receives than this are left; 0 if not armed. */
  limit = 0;
  /** [0] the time at which the receives requested by the NIC arrive. */
  readonly fetchedNs = new Float64Array(1);
  // Counters for the invariants: receives completed, and receives discarded by a reset or destroyed queue
  // pair.
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

  /** Receives not taken yet. */
  get waiting(): number {
    return (this.queue.posted - this.queue.freed) | 0;
  }

  /** Resizes the queue. Returns false when more receives wait than the new size allows. */
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
 * Takes a receive from the shared queue for a queue pair without one. Returns false when there is none, or no
 * shared queue.
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
