/**
 * Protection domains, memory regions and memory windows of simulated devices. Windows are bound by posted
 * requests (src/sim/memory/memory-windows.ts).
 */

import { allocWindow, freeWindow } from '../../sim/memory/memory-windows.ts';
import * as C from '../../verbs/constants.ts';
import { BusyError, InvalidArgumentError, NoResourcesError } from '../../verbs/errors.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { MrChange, MrInfo } from '../../verbs/types.ts';
import { unsupportedVerbs } from '../../verbs/verbs.ts';
import { countOf, requireInteger, requireObject } from './arguments.ts';
import { LIMITS } from './limits.ts';
import { requireAccess, requireMemory } from './memory-checks.ts';
import {
  detach,
  type Mr,
  type Mw,
  type Objects,
  type Pd,
  requireNoChildren,
  sameContext,
} from './objects.ts';
import type { TimePump } from './time-pump.ts';

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
        throw new NoResourcesError(`allocPd: the device supports at most ${LIMITS.maxPd} protection domains`);
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

export function mrVerbs(pump: TimePump, objects: Objects): MrVerbs {
  const { pds, mrs } = objects;
  const { regions } = pump.sim.world;

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
        throw new NoResourcesError(`allocMr: cannot allocate ${lengthBytes} bytes`, {
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
  throw new BusyError(
    `${verb}: ${countOf(windows, 'memory window')} still bound to the region; unbind first`,
    {
      verb,
      errno: C.EBUSY,
    },
  );
}

type MwVerbs = Pick<Provider, 'allocMw' | 'queryMw' | 'deallocMw'>;

export function mwVerbs(pump: TimePump, objects: Objects): MwVerbs {
  const { pds, mws } = objects;
  const { world } = pump.sim;
  return {
    allocMw(handle, type) {
      const pd = pds.require(handle, 'allocMw');
      requireInteger('allocMw', 'type', type, C.IBV_MW_TYPE_1, C.IBV_MW_TYPE_2);
      if (mws.size >= LIMITS.maxMw) {
        throw new NoResourcesError(`allocMw: the device supports at most ${LIMITS.maxMw} memory windows`, {
          verb: 'allocMw',
          errno: C.ENOMEM,
        });
      }
      const mw: Mw = { pd, window: allocWindow(world, type, pd.context.host, pd.id) };
      pd.mws++;
      return { handle: mws.add(mw), type, rkey: mw.window.key };
    },
    queryMw(handle) {
      const { type, key } = mws.require(handle, 'queryMw').window;
      return { handle, type, rkey: key };
    },
    deallocMw(handle) {
      const mw = mws.require(handle, 'deallocMw');
      freeWindow(world, mw.window);
      mw.pd.mws--;
      mws.delete(handle);
    },
  };
}

export function mrChanges(pump: TimePump, objects: Objects): Pick<Provider, 'reregMr' | 'regDmabufMr'> {
  const { pds, mrs } = objects;
  const { regions } = pump.sim.world;
  return {
    reregMr(handle, change) {
      const mr = mrs.require(handle, 'reregMr');
      const { pd, access, translation } = checkedChange(objects, change, mr);
      requireUnbound('reregMr', mr);
      const { memory, byteOffset, lengthBytes } = translation;
      const to = pd === 0 ? mr.pd : pds.require(pd, 'reregMr');
      mr.region = regions.replace(mr.region, to.id, memory, byteOffset, lengthBytes, access);
      mr.pd.mrs.delete(mr);
      mr.pd = to;
      to.mrs.add(mr);
      return infoOf(handle, mr);
    },
    ...unsupportedVerbs({ regDmabufMr: 'simulated devices cannot access the memory of other devices' }),
  };
}

/** @throws InvalidArgumentError when nothing changes or the change is impossible */
function checkedChange(objects: Objects, change: MrChange, mr: Mr): Required<MrChange> {
  requireObject('reregMr', 'change', change);
  const { pd, access, translation } = change;
  if (pd === undefined && access === undefined && translation === undefined) {
    throw new InvalidArgumentError('reregMr: change must name pd, access or translation', {
      verb: 'reregMr',
      errno: C.EINVAL,
    });
  }
  if (pd !== undefined) {
    sameContext('reregMr', 'change.pd', objects.pds.require(pd, 'reregMr').context, mr.pd.context);
  }
  if (access !== undefined) requireAccess('reregMr', access);
  const { buffer: memory, byteOffset } = mr.region.bytes;
  const to = translation ?? { memory, byteOffset, lengthBytes: mr.region.lengthBytes };
  requireObject('reregMr', 'change.translation', to);
  requireMemory('reregMr', to.memory, to.byteOffset, to.lengthBytes);
  return { pd: pd ?? 0, access: access ?? mr.region.access, translation: to };
}
