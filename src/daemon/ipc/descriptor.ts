/** An owned file descriptor: it is closed once, and its number is not used afterwards. */
import { InvalidArgumentError, InvalidHandleError, shown } from '../../verbs/errors.ts';
import { requireIpc } from './native.ts';

/** 0 to 2 are the standard streams. */
const MIN_FD = 3;

/** @throws InvalidArgumentError for a number that cannot be one of our descriptors */
export function requireFd(where: string, fd: number): number {
  if (Number.isInteger(fd) && fd >= MIN_FD && fd <= 0x7fffffff) return fd;
  throw new InvalidArgumentError(`${where}: a descriptor is a whole number from ${MIN_FD}, got ${shown(fd)}`);
}

export class Descriptor {
  readonly #what: string;
  #fd: number;

  /** @param what names the owner in error messages, such as 'the listener' */
  constructor(what: string, fd: number) {
    this.#what = what;
    this.#fd = requireFd(what, fd);
  }

  get closed(): boolean {
    return this.#fd < 0;
  }

  /** The number, for immediate use. @throws InvalidHandleError if it was closed or taken */
  get fd(): number {
    if (this.#fd >= 0) return this.#fd;
    throw new InvalidHandleError(`${this.#what} is closed`);
  }

  /**
   * Calls the listener while there is something to read; null stops that. Exceptions of the listener are
   * uncaught.
   * @throws InvalidArgumentError if something else in this thread already watches the descriptor
   */
  watch(listener: (() => void) | null, keepAlive: boolean): void {
    requireIpc().watchFd(this.fd, listener, keepAlive);
  }

  /** Releases the number without closing it and stops watching it. */
  take(): number {
    const fd = this.fd;
    requireIpc().watchFd(fd, null, false);
    this.#fd = -1;
    return fd;
  }

  close(): void {
    if (this.#fd < 0) return;
    const fd = this.#fd;
    this.#fd = -1;
    requireIpc().closeFd(fd);
  }
}

/** Closes a descriptor that came with a message and has no owner. */
export function closeFd(fd: number): void {
  requireIpc().closeFd(requireFd('closeFd', fd));
}
