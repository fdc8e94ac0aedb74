/** What a shim knows by handle: queue pairs, completion queues, rings. */
import { handleIndex } from '../verbs/handles.ts';
import type { Provider } from '../verbs/provider.ts';
import type { RingInfo } from '../verbs/types.ts';
import type { ShimCq } from './cq-ledger.ts';
import type { ShimQp } from './qp-ledger.ts';

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

export class Tables {
  // By handle index, of which each kind of object counts its own.
  readonly qps: (ShimQp | undefined)[] = [];
  readonly cqs: (ShimCq | undefined)[] = [];
  readonly wrRings: (KnownRing | undefined)[] = [];
  readonly wcRings: (KnownRing | undefined)[] = [];

  qp(handle: number): ShimQp | undefined {
    const qp = this.qps[handleIndex(handle)];
    return qp !== undefined && qp.handle === handle ? qp : undefined;
  }

  cq(handle: number): ShimCq | undefined {
    const cq = this.cqs[handleIndex(handle)];
    return cq !== undefined && cq.handle === handle ? cq : undefined;
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
