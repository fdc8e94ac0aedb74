/** Protection domains and memory regions. */
import { isAnyArrayBuffer } from 'node:util/types';
import { InvalidArgumentError, MemoryError } from '../../verbs/errors.ts';
import type { MrInfo, Verbs } from '../../verbs/provider.ts';
import type { NativeVerbs } from './addon.ts';
import { whole } from './check.ts';

/** The bytes to register. @throws MemoryError for what cannot stay in place, InvalidArgumentError for a bad range */
function viewOf(
  memory: ArrayBuffer | SharedArrayBuffer,
  byteOffset: number,
  lengthBytes: number,
): Uint8Array {
  const verb = 'regMr';
  if (!isAnyArrayBuffer(memory)) {
    throw new InvalidArgumentError('regMr: memory must be an ArrayBuffer or a SharedArrayBuffer', { verb });
  }
  const flags = memory as { resizable?: boolean; growable?: boolean; detached?: boolean };
  if (flags.resizable === true || flags.growable === true) {
    throw new MemoryError('regMr: the buffer is resizable; it could move under the device', { verb });
  }
  if (memory.byteLength === 0) {
    throw new MemoryError('regMr: the buffer is empty or detached', { verb });
  }
  whole(verb, 'byteOffset', byteOffset, 0, memory.byteLength - 1);
  whole(verb, 'lengthBytes', lengthBytes, 1, memory.byteLength - byteOffset);
  return new Uint8Array(memory, byteOffset, lengthBytes);
}

export function memoryVerbs(native: NativeVerbs) {
  const checkAccess = (verb: string, access: number) => whole(verb, 'access', access, 0, 15);
  return {
    allocPd: native.allocPd,
    deallocPd: native.deallocPd,
    allocMr(pd: number, lengthBytes: number, access: number): MrInfo {
      whole('allocMr', 'lengthBytes', lengthBytes, 1, Number.MAX_SAFE_INTEGER);
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
      const view = viewOf(memory, byteOffset, lengthBytes);
      return { ...native.regMr(pd, view, access), lengthBytes, memory, byteOffset };
    },
    deregMr: native.deregMr,
  } satisfies Partial<Verbs>;
}
