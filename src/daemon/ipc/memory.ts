/** Memory that processes share: a memfd, sealed so that no process can take it from under another. */
import { detach } from '../../providers/native-addon.ts';
import { InvalidHandleError, InvalidStateError } from '../../verbs/errors.ts';
import { closeFd, Descriptor, requireFd } from './descriptor.ts';
import { requireIpc } from './native.ts';

export class SharedMemory {
  readonly bytes: number;
  #buffer: ArrayBuffer | null;
  readonly #descriptor: Descriptor | null;

  /** Not for users: createMemory() and openMemory() make them. */
  constructor(buffer: ArrayBuffer, descriptor: Descriptor | null) {
    this.bytes = buffer.byteLength;
    this.#buffer = buffer;
    this.#descriptor = descriptor;
  }

  get closed(): boolean {
    return this.#buffer === null;
  }

  /**
   * The bytes. Atomics work on views of it, but for those that wait. What only others may write shows what they
   * write; whoever writes there himself gets that page as a copy of his own, which hears nothing any more.
   * @throws InvalidHandleError when closed
   */
  get buffer(): ArrayBuffer {
    if (this.#buffer === null) throw new InvalidHandleError('the shared memory is closed');
    return this.#buffer;
  }

  /**
   * To be sent to another process, of memory made here.
   * @throws InvalidHandleError when closed
   * @throws InvalidStateError for memory of another process
   */
  get fd(): number {
    if (this.#descriptor === null) {
      throw new InvalidStateError('this memory is of another process: that one passes it on');
    }
    return this.#descriptor.fd;
  }

  /**
   * Fixes the size, for ever. With `readOnlyForOthers` nobody can map the memory for writing or write to it from now
   * on, however the descriptor came to him; `buffer` here stays writable. Once, before the descriptor is sent.
   * @throws InvalidStateError when sealed already
   * @throws UnsupportedError where the kernel cannot do it (before 5.1)
   */
  seal({ readOnlyForOthers = false }: { readOnlyForOthers?: boolean } = {}): void {
    requireIpc().sealMemory(this.fd, readOnlyForOthers);
  }

  /** No process can be given it any more; those that have it keep it. */
  closeFd(): void {
    this.#descriptor?.close();
  }

  /** Detaches `buffer` and lets go of the memory; it is gone when all processes have. */
  close(): void {
    if (this.#buffer === null) return;
    const buffer = this.#buffer;
    this.#buffer = null;
    this.#descriptor?.close();
    try {
      detach(requireIpc(), buffer);
    } catch {
      // A buffer that may not be detached keeps the memory until it is collected.
    }
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/**
 * Zeroed memory to be shared with other processes. `name` is what /proc/PID/maps and /proc/PID/fd show. The first
 * `reservedBytes`, if nothing is said all, are there from the beginning; the rest comes page by page when it is
 * touched, and who touches it when the system has no more is ended by SIGBUS.
 * @throws NoResourcesError when there is not so much
 * @throws InvalidArgumentError for a name over 249 bytes, or more than 1 GiB
 */
export function createMemory(name: string, bytes: number, reservedBytes: number = bytes): SharedMemory {
  const { fd, buffer } = requireIpc().createMemory(name, bytes, reservedBytes);
  return new SharedMemory(buffer, new Descriptor('the shared memory', fd));
}

/**
 * Memory of another process, of which a descriptor came with a message. The descriptor is closed, whatever happens.
 * @throws MemoryError when it is of another size, not sealed against shrinking and growing, to be written
 *   where its maker allows reading alone, or no shared memory
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
