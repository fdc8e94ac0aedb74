/** Wake-ups for a process that sleeps in its event loop, in half the time of a message to a net.Socket. */
import { HandshakeError } from '../../verbs/errors.ts';
import { Descriptor } from './descriptor.ts';
import { requireIpc } from './native.ts';
import type { WatchOptions } from './socket.ts';

/** One end of a wake-up. */
export class Wake {
  readonly #descriptor: Descriptor;

  /** Takes over a descriptor that came with a message. */
  constructor(fd: number) {
    this.#descriptor = new Descriptor('the wake-up', fd);
  }

  get closed(): boolean {
    return this.#descriptor.closed;
  }

  /** To be sent to another process. @throws InvalidHandleError if closed */
  get fd(): number {
    return this.#descriptor.fd;
  }

  /**
   * Wakes the process that watches the other end; several signals may arrive as one. Returns false if the
   * other end is gone.
   */
  signal(): boolean {
    return requireIpc().ring(this.#descriptor.fd);
  }

  /**
   * Calls the listener with true when the other end signals, and once with false when it has gone, or with the error if it
   * has sent a descriptor; null stops that.
   */
  watch(
    listener: ((alive: boolean, error?: HandshakeError) => void) | null,
    { keepAlive = false }: WatchOptions = {},
  ): void {
    if (typeof listener !== 'function') {
      this.#descriptor.watch(listener, keepAlive);
      return;
    }
    const native = requireIpc();
    const descriptor = this.#descriptor;
    const { fd } = descriptor;
    const onReadable = () => {
      const alive = native.drain(fd);
      if (!alive) descriptor.watch(null, false);
      if (alive === null) listener(false, new HandshakeError('a descriptor over its wake-up'));
      else listener(alive);
    };
    descriptor.watch(onReadable, keepAlive);
  }

  /** Closes the descriptor of an end that has been sent to another process, which keeps it. */
  closeFd(): void {
    this.#descriptor.close();
  }

  /**
   * Closes this end in every process.
   * @param closed called once it is closed, in most cases at once; see UnixSocket.close()
   */
  close(closed: () => void = () => {}): void {
    this.#descriptor.closeSocket(closed);
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** Two connected ends. The caller keeps one, sends the other's `fd`, and then calls its `closeFd()`. */
export function createWake(): [near: Wake, far: Wake] {
  const { near, far } = requireIpc().createWake();
  return [new Wake(near), new Wake(far)];
}
