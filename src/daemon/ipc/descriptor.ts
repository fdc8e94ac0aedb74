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

/** What a listener waits for, as bits. */
export const READABLE = 1;
export const WRITABLE = 2;

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
   * Calls the listener while there is something to read, or room to write; null stops that. Exceptions of the
   * listener are uncaught.
   * @param events READABLE, WRITABLE or both
   * @throws InvalidArgumentError if something else in this thread already watches the descriptor
   */
  watch(listener: (() => void) | null, keepAlive: boolean, events = READABLE): void {
    requireIpc().watchFd(this.fd, listener, keepAlive, events);
  }

  /** Releases the number without closing it and stops watching it. */
  take(): number {
    const fd = this.fd;
    requireIpc().watchFd(fd, null, false, READABLE);
    this.#fd = -1;
    return fd;
  }

  /**
   * Closes a Unix socket, without waiting for descriptors that the peer has sent and that close only slowly. Their socket
   * stays open until another thread has closed them.
   * @param closed called once the socket is closed, in most cases at once
   */
  closeSocket(closed: () => void): void {
    if (this.#fd < 0) return;
    const fd = this.#fd;
    this.#fd = -1;
    if (requireIpc().closeSocket(fd, closed)) closed();
  }

  /** Closes a listening Unix socket, and the connections that wait there. */
  closeListener(): void {
    if (this.#fd < 0) return;
    const fd = this.#fd;
    this.#fd = -1;
    requireIpc().closeListener(fd);
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
