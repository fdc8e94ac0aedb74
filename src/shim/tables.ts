/** Tables by index: a shim's objects by handle, and a policy's typed columns. */
import { IBV_QPT_XRC_RECV } from '../verbs/constants.ts';
import { handleIndex } from '../verbs/handles.ts';
import type { Provider } from '../verbs/provider.ts';
import type { QpInfo, QpInitAttr, RingInfo } from '../verbs/types.ts';
import type { CqLedger } from './cq-ledger.ts';
import type { QpLedger } from './qp-ledger.ts';

/** A ring and its memory as words. */
export class KnownRing {
  readonly handle: number;
  readonly capacity: number;
  readonly extBytes: number;
  readonly words: Uint32Array;

  constructor(info: RingInfo) {
    this.handle = info.handle;
    this.capacity = info.capacity;
    this.extBytes = info.extBytes;
    this.words = new Uint32Array(info.memory);
  }
}

/** Queue pairs, completion queues and rings of a shim. */
export class Tables {
  // By handle index, which is counted separately for each kind of object.
  readonly qps: (QpLedger | undefined)[] = [];
  readonly cqs: (CqLedger | undefined)[] = [];
  readonly wrRings: (KnownRing | undefined)[] = [];
  readonly wcRings: (KnownRing | undefined)[] = [];
  /** CQs of each queue pair without a ledger, by handle: the shim may keep its completions, too. */
  private readonly unshaped = new Map<number, Set<CqLedger>>();

  qp(handle: number): QpLedger | undefined {
    const qp = this.qps[handleIndex(handle)];
    return qp !== undefined && qp.handle === handle ? qp : undefined;
  }

  cq(handle: number): CqLedger | undefined {
    const cq = this.cqs[handleIndex(handle)];
    return cq !== undefined && cq.handle === handle ? cq : undefined;
  }

  /** A queue pair was created that gets no ledger. Returns `info`. */
  addUnshaped({ qpType, sendCq, recvCq }: QpInitAttr, info: QpInfo): QpInfo {
    // Completions of an XRC_RECV belong to shared receive queues, and outlast it.
    if (qpType === IBV_QPT_XRC_RECV) return info;
    const cqs = [this.cq(sendCq), this.cq(recvCq)].filter((cq) => cq !== undefined);
    if (cqs.length > 0) this.unshaped.set(info.handle, new Set(cqs));
    return info;
  }

  /** Such a queue pair was reset: drops its completions that the shim keeps, as a device does. */
  forgetKept(handle: number): void {
    for (const cq of this.unshaped.get(handle) ?? []) cq.forget(handle);
  }

  removeUnshaped(handle: number): void {
    this.forgetKept(handle);
    this.unshaped.delete(handle);
  }

  /** `count` completions were delivered that the shim did not see. */
  countProduced(handle: number, count: number): void {
    const cq = this.cqs[handleIndex(handle)];
    if (cq !== undefined && cq.handle === handle) cq.produced = (cq.produced + count) | 0;
  }

  addWrRing(info: RingInfo): RingInfo {
    this.wrRings[handleIndex(info.handle)] = new KnownRing(info);
    return info;
  }

  addWcRing(info: RingInfo): RingInfo {
    this.wcRings[handleIndex(info.handle)] = new KnownRing(info);
    return info;
  }

  removeRing(handle: number): void {
    for (const rings of [this.wrRings, this.wcRings]) {
      if (rings[handleIndex(handle)]?.handle === handle) rings[handleIndex(handle)] = undefined;
    }
  }
}

/** Makes a completion ring for the shim's own polls. */
export function scratchRing(next: Provider, slots: number): KnownRing {
  return new KnownRing(next.createWcRing(slots));
}

/** The column itself if it has an element for `index`, otherwise a wider copy. */
export function fitColumn<T extends Uint8Array | Int32Array | Float64Array>(column: T, index: number): T {
  if (index < column.length) return column;
  const Column = column.constructor as new (length: number) => T;
  const wider = new Column(Math.max(index + 1, column.length * 2));
  wider.set(column);
  return wider;
}
