/** Protection domains and memory regions of simulated devices. */
import * as C from '../../verbs/constants.ts';
import { InvalidArgumentError, MemoryError, NoResourcesError } from '../../verbs/errors.ts';
import type { MrInfo, Provider } from '../../verbs/provider.ts';
import { requireInteger } from './arguments.ts';
import type { Driver } from './driver.ts';
import { LIMITS } from './limits.ts';
import { detach, type Objects, type Pd, requireNoChildren } from './objects.ts';

type PdVerbs = Pick<Provider, 'allocPd' | 'deallocPd'>;
type MrVerbs = Pick<Provider, 'allocMr' | 'regMr' | 'deregMr'>;

const PAGE_BYTES = 4096;
const ALL_ACCESS =
  C.IBV_ACCESS_LOCAL_WRITE |
  C.IBV_ACCESS_REMOTE_WRITE |
  C.IBV_ACCESS_REMOTE_READ |
  C.IBV_ACCESS_REMOTE_ATOMIC;

export function pdVerbs(objects: Objects): PdVerbs {
  const { contexts, pds } = objects;
  let pdCount = 0;
  return {
    allocPd(handle) {
      const context = contexts.require(handle, 'allocPd');
      if (pds.size >= LIMITS.maxPd)
        throw new NoResourcesError(`allocPd: the device has ${LIMITS.maxPd} at most`);
      pdCount++;
      const pd: Pd = { context, id: pdCount, mrs: new Set(), qps: new Set() };
      context.pds.add(pd);
      return pds.add(pd);
    },
    deallocPd(handle) {
      const pd = pds.require(handle, 'deallocPd');
      requireNoChildren('deallocPd', 'protection domain', [
        [pd.qps.size, 'queue pair'],
        [pd.mrs.size, 'memory region'],
      ]);
      pd.context.pds.delete(pd);
      pds.delete(handle);
    },
  };
}

export function mrVerbs(driver: Driver, objects: Objects): MrVerbs {
  const { pds, mrs } = objects;
  const { regions } = driver.sim.net;

  function register(
    pd: Pd,
    memory: ArrayBuffer | SharedArrayBuffer,
    byteOffset: number,
    lengthBytes: number,
    access: number,
    owned: ArrayBuffer | null,
  ): MrInfo {
    const region = regions.add(pd.context.host, pd.id, memory, byteOffset, lengthBytes, access);
    const mr = { pd, region, owned };
    pd.mrs.add(mr);
    const { lkey, rkey, addr } = region;
    return { handle: mrs.add(mr), lkey, rkey, addr, lengthBytes, memory, byteOffset };
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
      requireStableMemory(memory);
      requireInteger('regMr', 'byteOffset', byteOffset, 0, memory.byteLength);
      requireInteger('regMr', 'lengthBytes', lengthBytes, 1, memory.byteLength - byteOffset);
      requireAccess('regMr', access);
      return register(pd, memory, byteOffset, lengthBytes, access, null);
    },
    deregMr(handle) {
      const mr = mrs.require(handle, 'deregMr');
      regions.remove(mr.region);
      mr.pd.mrs.delete(mr);
      mrs.delete(handle);
      if (mr.owned !== null && mr.owned.byteLength > 0) detach(mr.owned);
    },
  };
}

function requireAccess(verb: string, access: number): void {
  requireInteger(verb, 'access', access, 0, ALL_ACCESS);
  const remoteWrites = C.IBV_ACCESS_REMOTE_WRITE | C.IBV_ACCESS_REMOTE_ATOMIC;
  if ((access & remoteWrites) !== 0 && (access & C.IBV_ACCESS_LOCAL_WRITE) === 0) {
    throw new InvalidArgumentError(
      `${verb}: access with IBV_ACCESS_REMOTE_WRITE or IBV_ACCESS_REMOTE_ATOMIC needs IBV_ACCESS_LOCAL_WRITE as well`,
      { verb, errno: C.EINVAL },
    );
  }
}

/** @throws MemoryError for memory that may move or vanish */
function requireStableMemory(memory: unknown): asserts memory is ArrayBuffer | SharedArrayBuffer {
  const verb = 'regMr';
  if (memory instanceof ArrayBuffer) {
    if ((memory as { resizable?: boolean }).resizable === true) {
      throw new MemoryError('regMr: a resizable ArrayBuffer cannot be registered: its memory may move', {
        verb,
      });
    }
    if (isDetached(memory)) throw new MemoryError('regMr: the ArrayBuffer is detached', { verb });
    return;
  }
  if (memory instanceof SharedArrayBuffer) {
    if ((memory as { growable?: boolean }).growable === true) {
      throw new MemoryError('regMr: a growable SharedArrayBuffer cannot be registered', { verb });
    }
    return;
  }
  throw new InvalidArgumentError(
    `regMr: memory must be an ArrayBuffer or a SharedArrayBuffer, got ${typeof memory}`,
    {
      verb,
    },
  );
}

function isDetached(memory: ArrayBuffer): boolean {
  if (memory.byteLength > 0) return false;
  const { detached } = memory as { detached?: boolean };
  if (detached !== undefined) return detached;
  try {
    new Uint8Array(memory);
    return false;
  } catch {
    return true;
  }
}
