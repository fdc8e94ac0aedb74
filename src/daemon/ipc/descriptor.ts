/** A file descriptor that somebody owns: it is closed once, and its number is not used after that. */
import { InvalidArgumentError, InvalidHandleError, shown } from '../../verbs/errors.ts';
import { requireIpc } from './native.ts';

/** 0 to 2 are the standard streams. */
const LEAST_FD = 3;

/** @throws InvalidArgumentError for what cannot be a descriptor of ours */
export function requireFd(where: string, fd: number): number {
  if (Number.isInteger(fd) && fd >= LEAST_FD && fd <= 0x7fffffff) return fd;
  throw new InvalidArgumentError(
    `${where}: a descriptor is a whole number from ${LEAST_FD}, got ${shown(fd)}`,
  );
}

export class Descriptor {
  readonly #what: string;
  #fd: number;

  /** `what` names the owner in messages: 'the listener'. */
  constructor(what: string, fd: number) {
    this.#what = what;
    this.#fd = requireFd(what, fd);
  }

  get closed(): boolean {
    return this.#fd < 0;
  }

  /** The number, to be used at once. @throws InvalidHandleError when it was closed or taken */
  get fd(): number {
    if (this.#fd >= 0) return this.#fd;
    throw new InvalidHandleError(`${this.#what} is closed`);
  }

  /**
   * Calls the listener as long as there is something to read; null: no longer. What it throws is uncaught.
   * @throws InvalidArgumentError when something else in this thread listens to the descriptor already
   */
  watch(listener: (() => void) | null, keepAlive: boolean): void {
    requireIpc().watchFd(this.fd, listener, keepAlive);
  }

  /** Gives the number away, open; nothing here listens to it any more. */
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

/** Closes a descriptor that came with a message and that nobody has taken. */
export function closeFd(fd: number): void {
  requireIpc().closeFd(requireFd('closeFd', fd));
}
