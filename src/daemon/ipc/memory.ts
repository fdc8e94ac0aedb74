/** Memory shared between processes: a memfd, sealed so that no process can shrink it while another uses it. */
import { detach } from '../../providers/native-addon.ts';
import { InvalidHandleError, InvalidStateError } from '../../verbs/errors.ts';
import { closeFd, Descriptor, requireFd } from './descriptor.ts';
import { requireIpc } from './native.ts';

export class SharedMemory {
  readonly bytes: number;
  #buffer: ArrayBuffer | null;
  readonly #descriptor: Descriptor | null;

  /** Internal; use createMemory() and openMemory(). */
  constructor(buffer: ArrayBuffer, descriptor: Descriptor | null) {
    this.bytes = buffer.byteLength;
    this.#buffer = buffer;
    this.#descriptor = descriptor;
  }

  get closed(): boolean {
    return this.#buffer === null;
  }

  /**
   * The bytes. Atomics work on views of it, except those that wait. Read-only memory shows what its owner
   * writes; writing to it turns the page into a private copy, which no longer shows the owner's changes.
   * @throws InvalidHandleError if closed
   */
  get buffer(): ArrayBuffer {
    if (this.#buffer === null) throw new InvalidHandleError('the shared memory is closed');
    return this.#buffer;
  }

  /**
   * The descriptor to send to another process; only for memory made here.
   * @throws InvalidHandleError if closed
   * @throws InvalidStateError for memory of another process
   */
  get fd(): number {
    if (this.#descriptor === null) {
      throw new InvalidStateError('this memory belongs to another process; only its owner can share it');
    }
    return this.#descriptor.fd;
  }

  /**
   * Fixes the size permanently. With `readOnlyForOthers`, no process can write to the memory or map it for
   * writing from now on, whatever descriptor it has; `buffer` here stays writable. Call it once, before
   * sending the descriptor.
   * @throws InvalidStateError if already sealed
   * @throws UnsupportedError if the kernel does not support it (before 5.1)
   */
  seal({ readOnlyForOthers = false }: { readOnlyForOthers?: boolean } = {}): void {
    requireIpc().sealMemory(this.fd, readOnlyForOthers);
  }

  /** Closes the descriptor. The memory can no longer be sent; processes that have it keep it. */
  closeFd(): void {
    this.#descriptor?.close();
  }

  /** Detaches `buffer` and unmaps the memory. The memory is freed when all processes have done so. */
  close(): void {
    if (this.#buffer === null) return;
    const buffer = this.#buffer;
    this.#buffer = null;
    this.#descriptor?.close();
    try {
      detach(requireIpc(), buffer);
    } catch {
      // A buffer that must not be detached keeps the memory until it is garbage collected.
    }
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/**
 * Creates zeroed memory to share with other processes. `name` appears in /proc/PID/maps and /proc/PID/fd. The
 * first `reservedBytes` (default: all) are reserved at once. The rest is allocated page by page when touched;
 * if the system has no memory left then, SIGBUS ends the process.
 * @throws NoResourcesError if there is not enough memory
 * @throws InvalidArgumentError for a name over 249 bytes, or more than 1 GiB
 */
export function createMemory(name: string, bytes: number, reservedBytes: number = bytes): SharedMemory {
  const { fd, buffer } = requireIpc().createMemory(name, bytes, reservedBytes);
  return new SharedMemory(buffer, new Descriptor('the shared memory', fd));
}

/**
 * Maps memory of another process from a descriptor that came with a message. The descriptor is always closed.
 * @throws MemoryError if the size differs, if it is not sealed against shrinking and growing, if `writable`
 * is set and its owner allows only reading, or if it is not shared memory
 */
export function openMemory(
  fd: number,
  bytes: number,
  { writable = false }: { writable?: boolean } = {},
): SharedMemory {
  requireFd('openMemory', fd);
  try {
    return new SharedMemory(requireIpc().mapMemory(fd, bytes, writable), null);
  } finally {
    closeFd(fd);
  }
}
