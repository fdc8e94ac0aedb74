/** Protection domains and memory regions of simulated devices. */
import * as C from '../../verbs/constants.ts';
import { BusyError, NoResourcesError } from '../../verbs/errors.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { MrInfo } from '../../verbs/types.ts';
import { countOf, requireInteger } from './arguments.ts';
import type { Driver } from './driver.ts';
import { LIMITS } from './limits.ts';
import { requireAccess, requireMemory } from './mr-checks.ts';
import { detach, type Mr, type Objects, type Pd, requireNoChildren } from './objects.ts';

type PdVerbs = Pick<Provider, 'allocPd' | 'deallocPd'>;
type MrVerbs = Pick<Provider, 'allocMr' | 'regMr' | 'deregMr'>;

const PAGE_BYTES = 4096;
export function pdVerbs(objects: Objects): PdVerbs {
  const { contexts, pds } = objects;
  let pdCount = 0;
  return {
    allocPd(handle) {
      const context = contexts.require(handle, 'allocPd');
      if (pds.size >= LIMITS.maxPd)
        throw new NoResourcesError(`allocPd: the device has ${LIMITS.maxPd} at most`);
      pdCount++;
      const pd: Pd = { context, id: pdCount, mrs: new Set(), mws: 0, qps: 0, srqs: 0, ahs: 0 };
      context.pds.add(pd);
      return pds.add(pd);
    },
    deallocPd(handle) {
      const pd = pds.require(handle, 'deallocPd');
      requireNoChildren('deallocPd', 'protection domain', [
        [pd.qps, 'queue pair'],
        [pd.srqs, 'shared receive queue'],
        [pd.ahs, 'address handle'],
        [pd.mrs.size, 'memory region'],
        [pd.mws, 'memory window'],
      ]);
      pd.context.pds.delete(pd);
      pds.delete(handle);
    },
  };
}

export function mrVerbs(driver: Driver, objects: Objects): MrVerbs {
  const { pds, mrs } = objects;
  const { regions } = driver.sim.world;

  function register(
    pd: Pd,
    memory: ArrayBuffer | SharedArrayBuffer,
    byteOffset: number,
    lengthBytes: number,
    access: number,
    owned: ArrayBuffer | null,
  ): MrInfo {
    const region = regions.add(pd.context.host, pd.id, memory, byteOffset, lengthBytes, access);
    const mr: Mr = { pd, region, owned };
    pd.mrs.add(mr);
    return infoOf(mrs.add(mr), mr);
  }

  return {
    allocMr(handle, lengthBytes, access) {
      const pd = pds.require(handle, 'allocMr');
      requireInteger('allocMr', 'lengthBytes', lengthBytes, 1, LIMITS.maxMrSizeBytes);
      requireAccess('allocMr', access);
      let memory: ArrayBuffer;
      try {
        memory = new ArrayBuffer(Math.ceil(lengthBytes / PAGE_BYTES) * PAGE_BYTES);
      } catch (cause) {
        throw new NoResourcesError(`allocMr: no memory for ${lengthBytes} bytes`, {
          verb: 'allocMr',
          errno: 12,
          cause,
        });
      }
      return register(pd, memory, 0, lengthBytes, access, memory);
    },
    regMr(handle, memory, byteOffset, lengthBytes, access) {
      const pd = pds.require(handle, 'regMr');
      requireMemory('regMr', memory, byteOffset, lengthBytes);
      requireAccess('regMr', access);
      return register(pd, memory, byteOffset, lengthBytes, access, null);
    },
    deregMr(handle) {
      const mr = mrs.require(handle, 'deregMr');
      requireUnbound('deregMr', mr);
      regions.remove(mr.region);
      mr.pd.mrs.delete(mr);
      mrs.delete(handle);
      if (mr.owned !== null && mr.owned.byteLength > 0) detach(mr.owned);
    },
  };
}

export function infoOf(handle: number, mr: Mr): MrInfo {
  const { lkey, rkey, addr, lengthBytes, bytes } = mr.region;
  const { buffer: memory, byteOffset } = bytes;
  return { handle, lkey, rkey, addr, lengthBytes, memory, byteOffset };
}

/** @throws BusyError while memory windows are bound to the region */
export function requireUnbound(verb: string, mr: Mr): void {
  const { windows } = mr.region;
  if (windows === 0) return;
  throw new BusyError(`${verb}: ${countOf(windows, 'memory window')} bound to the region; unbind first`, {
    verb,
    errno: C.EBUSY,
  });
}
