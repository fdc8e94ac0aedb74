/** One live object of each kind, and closed ones, for the table of wrong arguments. */
import * as V from '../../src/verbs/index.ts';
import type { Ground } from './ground.ts';
import { ACCESS, CAP } from './rig.ts';

const KINDS = [
  'context',
  'pd',
  'mr',
  'cq',
  'qp',
  'udQp',
  'channel',
  'wrRing',
  'wcRing',
  'srq',
  'ah',
  'mw',
  'xrcd',
] as const;

type Kind = (typeof KINDS)[number];

/** Undoes a step of set-up. */
type Undo = () => void;

export class World {
  readonly ground: Ground;
  readonly p: V.Provider;
  readonly live = {} as Record<Kind, number>;
  readonly mr: V.MrInfo;
  readonly gid: string;
  private readonly undo: Undo[] = [];

  constructor(ground: Ground) {
    this.ground = ground;
    const p = ground.provider;
    this.p = p;
    const { live } = this;
    live.context = this.keep(p.openDevice(ground.devices[0]), p.closeDevice);
    live.pd = this.keep(p.allocPd(live.context), p.deallocPd);
    live.channel = this.keep(p.createCompChannel(live.context), p.destroyCompChannel);
    live.cq = this.keep(p.createCq(live.context, 64, 0).handle, p.destroyCq);
    this.mr = p.allocMr(live.pd, 8192, ACCESS);
    live.mr = this.keep(this.mr.handle, p.deregMr);
    live.wrRing = this.keep(p.createWrRing(4, 2, 0).handle, p.destroyRing);
    live.wcRing = this.keep(p.createWcRing(4).handle, p.destroyRing);
    this.gid = p.queryGid(live.context, 1, ground.gidIndex).gid;
    for (const kind of ['qp', 'udQp', 'srq', 'ah', 'mw', 'xrcd'] as const) {
      const made = this.tryMake(kind);
      // Unsupported objects keep a number that is not a handle.
      live[kind] = made === null ? 0 : this.keep(made[0], made[1]);
    }
  }

  /** The handle of an object of this kind that was closed. */
  closed(kind: Kind): number {
    const made = this.tryMake(kind);
    if (made === null) return 12345;
    made[1](made[0]);
    return made[0];
  }

  close(): void {
    for (const undo of this.undo.reverse()) undo();
  }

  private keep(handle: number, close: (handle: number) => void): number {
    this.undo.push(() => close(handle));
    return handle;
  }

  /** Creates an object; null if the device does not support it. */
  private tryMake(kind: Kind): [number, (handle: number) => void] | null {
    try {
      return this.make(kind);
    } catch (error) {
      if (error instanceof V.UnsupportedError) return null;
      throw error;
    }
  }

  private make(kind: Kind): [number, (handle: number) => void] {
    const { p, live, ground } = this;
    const qp = (qpType: number) =>
      p.createQp(live.pd, { qpType, sendCq: live.cq, recvCq: live.cq, cap: CAP, sqSigAll: false }).handle;
    switch (kind) {
      case 'context':
        return [p.openDevice(ground.devices[0]), p.closeDevice];
      case 'pd':
        return [p.allocPd(live.context), p.deallocPd];
      case 'mr':
        return [p.allocMr(live.pd, 64, 1).handle, p.deregMr];
      case 'cq':
        return [p.createCq(live.context, 1, 0).handle, p.destroyCq];
      case 'channel':
        return [p.createCompChannel(live.context), p.destroyCompChannel];
      case 'wrRing':
        return [p.createWrRing(1, 1, 0).handle, p.destroyRing];
      case 'wcRing':
        return [p.createWcRing(1).handle, p.destroyRing];
      case 'qp':
        return [qp(V.IBV_QPT_RC), p.destroyQp];
      case 'udQp':
        return [qp(V.IBV_QPT_UD), p.destroyQp];
      case 'srq':
        return [p.createSrq(live.pd, { maxWr: 4, maxSge: 1 }).handle, p.destroySrq];
      case 'ah':
        return [p.createAh(live.pd, this.ahAttr()), p.destroyAh];
      case 'mw':
        return [p.allocMw(live.pd, V.IBV_MW_TYPE_2).handle, p.deallocMw];
      case 'xrcd':
        return [p.openXrcd(live.context), p.closeXrcd];
    }
  }

  ahAttr(): V.AhAttr {
    return { dgid: this.gid, sgidIndex: this.ground.gidIndex, portNum: 1, hopLimit: 64 };
  }
}
