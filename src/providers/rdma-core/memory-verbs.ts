/** Protection domains, memory regions and windows. */
import { isAnyArrayBuffer } from 'node:util/types';
import * as C from '../../verbs/constants.ts';
import { InvalidArgumentError, MemoryError, UnsupportedError } from '../../verbs/errors.ts';
import type { MrChange, MrInfo, MwInfo } from '../../verbs/types.ts';
import type { Verbs } from '../../verbs/verbs.ts';
import type { NativeVerbs } from './addon.ts';
import { handleOf, requireObject, requireWhole } from './check.ts';

/**
 * The bytes to register. @throws MemoryError for a buffer that may move, InvalidArgumentError for an invalid
 * range
 */
function viewOf(
  verb: string,
  memory: ArrayBuffer | SharedArrayBuffer,
  byteOffset: number,
  lengthBytes: number,
): Uint8Array {
  if (!isAnyArrayBuffer(memory)) {
    throw new InvalidArgumentError(`${verb}: memory must be an ArrayBuffer or a SharedArrayBuffer`, { verb });
  }
  const flags = memory as { resizable?: boolean; growable?: boolean; detached?: boolean };
  if (flags.resizable === true || flags.growable === true) {
    throw new MemoryError(`${verb}: the buffer is resizable; it could move under the device`, { verb });
  }
  if (memory.byteLength === 0) {
    throw new MemoryError(`${verb}: the buffer is empty or detached`, { verb });
  }
  requireWhole(verb, 'byteOffset', byteOffset, 0, memory.byteLength - 1);
  requireWhole(verb, 'lengthBytes', lengthBytes, 1, memory.byteLength - byteOffset);
  return new Uint8Array(memory, byteOffset, lengthBytes);
}

const ACCESS_FLAGS =
  C.IBV_ACCESS_LOCAL_WRITE |
  C.IBV_ACCESS_REMOTE_WRITE |
  C.IBV_ACCESS_REMOTE_READ |
  C.IBV_ACCESS_REMOTE_ATOMIC |
  C.IBV_ACCESS_MW_BIND |
  C.IBV_ACCESS_ZERO_BASED |
  C.IBV_ACCESS_ON_DEMAND |
  C.IBV_ACCESS_HUGETLB |
  C.IBV_ACCESS_OPTIONAL_RANGE;

function checkAccess(verb: string, access: number): void {
  requireWhole(verb, 'access', access, 0, 0x7fffffff);
  const unknown = access & ~ACCESS_FLAGS;
  if (unknown === 0) return;
  throw new InvalidArgumentError(
    `${verb}: access must consist of IBV_ACCESS_* flags; 0x${unknown.toString(16)} is not one`,
    { verb },
  );
}

function reregMr(native: NativeVerbs, mr: number, { pd, access, translation }: MrChange): MrInfo {
  const verb = 'reregMr';
  let flags = 0;
  if (pd !== undefined) flags |= C.IBV_REREG_MR_CHANGE_PD;
  if (access !== undefined) {
    checkAccess(verb, access);
    if ((access & C.IBV_ACCESS_ZERO_BASED) !== 0) {
      throw new UnsupportedError(`${verb}: a region can be made zero-based only when it is registered`, {
        verb,
      });
    }
    flags |= C.IBV_REREG_MR_CHANGE_ACCESS;
  }
  let view: Uint8Array | undefined;
  if (translation !== undefined) {
    flags |= C.IBV_REREG_MR_CHANGE_TRANSLATION;
    view = viewOf(verb, translation.memory, translation.byteOffset, translation.lengthBytes);
  }
  if (flags === 0) {
    throw new InvalidArgumentError(`${verb}: nothing to change; set pd, access or translation`, { verb });
  }
  return native.reregMr(mr, flags, handleOf(pd ?? 0), view, access ?? 0);
}

export function memoryVerbs(native: NativeVerbs) {
  return {
    allocPd: native.allocPd,
    deallocPd: native.deallocPd,
    allocMr(pd: number, lengthBytes: number, access: number): MrInfo {
      requireWhole('allocMr', 'lengthBytes', lengthBytes, 1, Number.MAX_SAFE_INTEGER);
      checkAccess('allocMr', access);
      return { ...native.allocMr(pd, lengthBytes, access), lengthBytes };
    },
    regMr(
      pd: number,
      memory: ArrayBuffer | SharedArrayBuffer,
      byteOffset: number,
      lengthBytes: number,
      access: number,
    ): MrInfo {
      checkAccess('regMr', access);
      const view = viewOf('regMr', memory, byteOffset, lengthBytes);
      return { ...native.regMr(pd, view, access), lengthBytes, memory, byteOffset };
    },
    regDmabufMr(
      pd: number,
      offsetBytes: number,
      lengthBytes: number,
      iova: number,
      fd: number,
      access: number,
    ): MrInfo {
      const verb = 'regDmabufMr';
      requireWhole(verb, 'offsetBytes', offsetBytes, 0, Number.MAX_SAFE_INTEGER);
      requireWhole(verb, 'lengthBytes', lengthBytes, 1, Number.MAX_SAFE_INTEGER);
      requireWhole(verb, 'iova', iova, 0, Number.MAX_SAFE_INTEGER);
      requireWhole(verb, 'fd', fd, 0, 0x7fffffff);
      checkAccess(verb, access);
      const info = native.regDmabufMr(pd, offsetBytes, lengthBytes, iova, fd, access);
      return { ...info, memory: new ArrayBuffer(0), byteOffset: 0 };
    },
    reregMr(mr: number, change: MrChange): MrInfo {
      requireObject('reregMr', 'change', change);
      if (change.translation !== undefined) requireObject('reregMr', 'translation', change.translation);
      return reregMr(native, mr, change);
    },
    deregMr: native.deregMr,
  } satisfies Partial<Verbs>;
}

export function windowVerbs(native: NativeVerbs) {
  return {
    allocMw(pd: number, type: number): MwInfo {
      requireWhole('allocMw', 'type', type, C.IBV_MW_TYPE_1, C.IBV_MW_TYPE_2);
      return native.allocMw(pd, type);
    },
    queryMw: native.queryMw,
    deallocMw: native.deallocMw,
  } satisfies Partial<Verbs>;
}
