/** Checks of memory and access flags before registration. */
import * as C from '../../verbs/constants.ts';
import { InvalidArgumentError, MemoryError, UnsupportedError } from '../../verbs/errors.ts';
import { requireInteger } from './arguments.ts';

const REMOTE_WRITES = C.IBV_ACCESS_REMOTE_WRITE | C.IBV_ACCESS_REMOTE_ATOMIC;

/** IBV_ACCESS_HUGETLB only concerns pages, and optional flags may be ignored. */
const KNOWN_ACCESS =
  C.IBV_ACCESS_LOCAL_WRITE |
  REMOTE_WRITES |
  C.IBV_ACCESS_REMOTE_READ |
  C.IBV_ACCESS_MW_BIND |
  C.IBV_ACCESS_ZERO_BASED |
  C.IBV_ACCESS_ON_DEMAND |
  C.IBV_ACCESS_HUGETLB |
  C.IBV_ACCESS_OPTIONAL_RANGE;

/** @throws InvalidArgumentError for unknown or inconsistent flags, UnsupportedError for on-demand paging */
export function requireAccess(verb: string, access: number): void {
  requireInteger(verb, 'access', access, 0, KNOWN_ACCESS);
  if ((access & ~KNOWN_ACCESS) !== 0) {
    const bits = (access & ~KNOWN_ACCESS).toString(16);
    throw new InvalidArgumentError(
      `${verb}: access must consist of IBV_ACCESS_* flags, got unknown bits 0x${bits}`,
      {
        verb,
        errno: C.EINVAL,
      },
    );
  }
  if ((access & C.IBV_ACCESS_ON_DEMAND) !== 0) {
    throw new UnsupportedError(
      `${verb}: IBV_ACCESS_ON_DEMAND requires on-demand paging, which this device does not support`,
      { verb, errno: C.EOPNOTSUPP },
    );
  }
  if ((access & REMOTE_WRITES) !== 0 && (access & C.IBV_ACCESS_LOCAL_WRITE) === 0) {
    throw new InvalidArgumentError(
      `${verb}: access with IBV_ACCESS_REMOTE_WRITE or IBV_ACCESS_REMOTE_ATOMIC also requires IBV_ACCESS_LOCAL_WRITE`,
      { verb, errno: C.EINVAL },
    );
  }
}

/**
 * @throws MemoryError for memory that may move or disappear, InvalidArgumentError for a range outside of it
 */
export function requireMemory(
  verb: string,
  memory: unknown,
  byteOffset: number,
  lengthBytes: number,
): asserts memory is ArrayBuffer | SharedArrayBuffer {
  requireStableMemory(verb, memory);
  if (memory.byteLength === 0) throw new MemoryError(`${verb}: the buffer is empty or detached`, { verb });
  requireInteger(verb, 'byteOffset', byteOffset, 0, memory.byteLength - 1);
  requireInteger(verb, 'lengthBytes', lengthBytes, 1, memory.byteLength - byteOffset);
}

function requireStableMemory(
  verb: string,
  memory: unknown,
): asserts memory is ArrayBuffer | SharedArrayBuffer {
  if (memory instanceof ArrayBuffer) {
    if ((memory as { resizable?: boolean }).resizable === true) {
      throw new MemoryError(
        `${verb}: a resizable ArrayBuffer cannot be registered because its memory may move`,
        {
          verb,
        },
      );
    }
    return;
  }
  if (memory instanceof SharedArrayBuffer) {
    if ((memory as { growable?: boolean }).growable === true) {
      throw new MemoryError(`${verb}: a growable SharedArrayBuffer cannot be registered`, { verb });
    }
    return;
  }
  throw new InvalidArgumentError(
    `${verb}: memory must be an ArrayBuffer or a SharedArrayBuffer, got ${typeof memory}`,
    { verb },
  );
}
