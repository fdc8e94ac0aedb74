/** Wake-ups for a process that sleeps in its event loop, in half the time of a message to a net.Socket. */
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
   * Calls the listener with true when the other end signals, and once with false when it has gone; null stops
   * that.
   */
  watch(listener: ((alive: boolean) => void) | null, { keepAlive = false }: WatchOptions = {}): void {
    if (typeof listener !== 'function') {
      this.#descriptor.watch(listener, keepAlive);
      return;
    }
    const native = requireIpc();
    const { fd } = this;
    const onReadable = () => {
      const alive = native.drain(fd);
      if (!alive) native.watchFd(fd, null, false);
      listener(alive);
    };
    this.#descriptor.watch(onReadable, keepAlive);
  }

  close(): void {
    this.#descriptor.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** Two connected ends. The caller keeps one, sends the other's `fd`, and then closes that one. */
export function createWake(): [near: Wake, far: Wake] {
  const { near, far } = requireIpc().createWake();
  return [new Wake(near), new Wake(far)];
}
