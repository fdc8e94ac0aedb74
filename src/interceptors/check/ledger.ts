/** The program's objects and outstanding requests, as `check` knows them. */
import * as C from '../../verbs/constants.ts';
import type { DeviceAttr, MrInfo, QpInitAttr } from '../../verbs/types.ts';

/** A posted request that has not been retired. */
export interface Outstanding {
  readonly idLo: number;
  readonly idHi: number;
  readonly seq: number;
  /** Whether a success produces a completion. */
  readonly signaled: boolean;
  readonly regions: readonly Region[];
  /** The address handle that the request names, or 0. */
  readonly ah: number;
}

/** A memory region. */
export interface Region {
  pd: number;
  info: MrInfo;
  access: number;
}

/** A completion queue: its size, and the number of outstanding requests that will complete into it. */
export interface CheckedCq {
  cqe: number;
  pending: number;
}

/** A work queue. Requests have the provider's numbers (WC_SEQ), which begin at 0 and continue across a RESET. */
export class WorkQueue {
  readonly outstanding: Outstanding[] = [];
  readonly cq: CheckedCq | undefined;
  private next = 0;

  constructor(cq: CheckedCq | undefined) {
    this.cq = cq;
  }

  add(wr: Omit<Outstanding, 'seq'>): void {
    this.outstanding.push({ ...wr, seq: this.next });
    this.next = (this.next + 1) | 0;
    if (wr.signaled && this.cq !== undefined) this.cq.pending++;
  }

  /** Retires the request with this number and all requests before it. */
  retireTo(seq: number): void {
    while (this.outstanding.length > 0 && ((this.outstanding[0].seq - seq) | 0) <= 0) this.drop(0);
  }

  /** Retires a receive of a shared queue, whose receives complete in any order. */
  retireId(idLo: number, idHi: number): void {
    const at = this.outstanding.findIndex((wr) => wr.idLo === idLo && wr.idHi === idHi);
    if (at >= 0) this.drop(at);
  }

  clear(): void {
    while (this.outstanding.length > 0) this.drop(0);
  }

  has(idLo: number, idHi: number): boolean {
    return this.outstanding.some((wr) => wr.idLo === idLo && wr.idHi === idHi);
  }

  private drop(at: number): void {
    const [gone] = this.outstanding.splice(at, 1);
    if (gone.signaled && this.cq !== undefined) this.cq.pending--;
  }
}

/** A queue pair. */
export class CheckedQp {
  readonly handle: number;
  readonly pd: number;
  readonly init: QpInitAttr;
  readonly sends: WorkQueue;
  readonly recvs: WorkQueue;
  state: number = C.IBV_QPS_RESET;
  /** READs and atomics that may be in flight; -1 if not set yet. */
  maxRdAtomic = -1;

  constructor(handle: number, pd: number, init: QpInitAttr, sendCq?: CheckedCq, recvCq?: CheckedCq) {
    this.handle = handle;
    this.pd = pd;
    this.init = init;
    this.sends = new WorkQueue(sendCq);
    this.recvs = new WorkQueue(recvCq);
  }

  /** Whether the device may still access memory for this queue pair. */
  get live(): boolean {
    return this.state !== C.IBV_QPS_RESET && this.state !== C.IBV_QPS_ERR;
  }
}

/** A shared receive queue. */
export interface CheckedSrq {
  pd: number;
  queue: WorkQueue;
}

/** All objects by handle, and memory regions also by lkey. */
export class Ledger {
  readonly devices = new Map<number, DeviceAttr>();
  readonly pds = new Map<number, number>();
  readonly regions = new Map<number, Region>();
  readonly byLkey = new Map<number, Region>();
  readonly cqs = new Map<number, CheckedCq>();
  readonly qps = new Map<number, CheckedQp>();
  readonly srqs = new Map<number, CheckedSrq>();
  /** Handles of destroyed objects. */
  readonly closed = new Set<number>();

  device(pd: number): DeviceAttr | undefined {
    return this.devices.get(this.pds.get(pd) ?? 0);
  }

  addRegion(pd: number, info: MrInfo, access: number): void {
    const region = { pd, info, access };
    this.regions.set(info.handle, region);
    this.byLkey.set(info.lkey, region);
  }

  removeRegion(mr: number): void {
    const region = this.regions.get(mr);
    if (region === undefined) return;
    this.regions.delete(mr);
    this.byLkey.delete(region.info.lkey);
  }

  /** Outstanding requests of live queue pairs and of shared receive queues. */
  *outstanding(): IterableIterator<Outstanding> {
    for (const qp of this.qps.values()) {
      if (!qp.live) continue;
      yield* qp.sends.outstanding;
      yield* qp.recvs.outstanding;
    }
    for (const { queue } of this.srqs.values()) yield* queue.outstanding;
  }
}
