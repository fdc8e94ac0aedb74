/** The application's memory regions, by the local key that its receives use, and keys with which the peer may write there. */
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_MW_BIND,
  IBV_ACCESS_REMOTE_ATOMIC,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
} from '../../verbs/constants.ts';
import { IsoverbsError } from '../../verbs/errors.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { MrChange, MrInfo } from '../../verbs/types.ts';
import type { Verbs } from '../../verbs/verbs.ts';

const PLAIN =
  IBV_ACCESS_LOCAL_WRITE |
  IBV_ACCESS_REMOTE_WRITE |
  IBV_ACCESS_REMOTE_READ |
  IBV_ACCESS_REMOTE_ATOMIC |
  IBV_ACCESS_MW_BIND;

export class Region {
  readonly pd: number;
  readonly access: number;
  readonly info: MrInfo;
  /** The shim's own registration of the same memory; null if it was not made or is not needed. */
  own: MrInfo | null = null;
  /** The key that the peer gets; 0 if not opened yet. */
  rkey = 0;
  /** Offset from the application's addresses to the addresses that are valid with `rkey`. */
  shift = 0;
  refused = false;
  private view: Uint8Array | null = null;

  constructor(pd: number, access: number, info: MrInfo) {
    this.pd = pd;
    this.access = access;
    this.info = info;
  }

  /** Its memory. */
  get bytes(): Uint8Array {
    const { memory, byteOffset, lengthBytes } = this.info;
    this.view ??= new Uint8Array(memory, byteOffset, lengthBytes);
    return this.view;
  }
}

export class Regions {
  private readonly next: Provider;
  private readonly byHandle = new Map<number, Region>();
  private readonly byKey = new Map<number, Map<number, Region>>();
  private readonly revoked: (rkey: number) => void;

  /** @param revoked called with each key that becomes invalid */
  constructor(next: Provider, revoked: (rkey: number) => void) {
    this.next = next;
    this.revoked = revoked;
  }

  /** The verbs that this class overrides. */
  verbs(): Partial<Verbs> {
    const { next } = this;
    return {
      allocMr: (pd, lengthBytes, access) => this.add(pd, access, next.allocMr(pd, lengthBytes, access)),
      regMr: (pd, memory, byteOffset, lengthBytes, access) =>
        this.add(pd, access, next.regMr(pd, memory, byteOffset, lengthBytes, access)),
      // If the device refuses, nothing must change, because a message on its way in pieces relies on the key.
      reregMr: (mr, change) => {
        const info = next.reregMr(mr, change);
        this.close(mr);
        this.change(mr, change, info);
        return info;
      },
      deregMr: (mr) => {
        next.deregMr(mr);
        this.close(mr);
        this.remove(mr);
      },
    };
  }

  add(pd: number, access: number, info: MrInfo): MrInfo {
    const region = new Region(pd, access, info);
    this.byHandle.set(info.handle, region);
    let keys = this.byKey.get(pd);
    if (keys === undefined) {
      keys = new Map();
      this.byKey.set(pd, keys);
    }
    keys.set(info.lkey, region);
    return info;
  }

  find(pd: number, lkey: number): Region | undefined {
    return this.byKey.get(pd)?.get(lkey);
  }

  /** By the remote key. A linear search, because few are looked up. */
  findRemote(pd: number, rkey: number): Region | undefined {
    for (const region of this.byKey.get(pd)?.values() ?? []) if (region.info.rkey === rkey) return region;
    return undefined;
  }

  /** Makes a key for the peer, if possible; returns whether there is one. */
  open(region: Region): boolean {
    if (region.rkey !== 0 || region.refused) return !region.refused;
    const { pd, access, info } = region;
    // The application's key is not used if it has relaxed ordering, on-demand paging or the like.
    if ((access & IBV_ACCESS_REMOTE_WRITE) !== 0 && (access & ~PLAIN) === 0) {
      region.rkey = info.rkey;
      return true;
    }
    try {
      const rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
      region.own = this.next.regMr(pd, info.memory, info.byteOffset, info.lengthBytes, rights);
    } catch (error) {
      if (!(error instanceof IsoverbsError)) throw error;
      region.refused = true;
      return false;
    }
    region.rkey = region.own.rkey;
    region.shift = region.own.addr - info.addr;
    return true;
  }

  /** The peer may no longer write there: the application has changed or ended the registration. */
  private close(handle: number): void {
    const region = this.byHandle.get(handle);
    if (region === undefined || region.rkey === 0) return;
    this.revoked(region.rkey);
    if (region.own !== null) this.next.deregMr(region.own.handle);
    region.own = null;
    region.rkey = 0;
    region.shift = 0;
  }

  remove(handle: number): void {
    const region = this.byHandle.get(handle);
    if (region === undefined) return;
    this.byHandle.delete(handle);
    const keys = this.byKey.get(region.pd);
    if (keys?.get(region.info.lkey) === region) keys.delete(region.info.lkey);
    if (keys?.size === 0) this.byKey.delete(region.pd);
  }

  /** After ibv_rereg_mr(3): keys, domain and memory may have changed. */
  change(handle: number, change: MrChange, info: MrInfo): void {
    const old = this.byHandle.get(handle);
    if (old === undefined) return;
    this.remove(handle);
    this.add(change.pd ?? old.pd, change.access ?? old.access, info);
  }
}
