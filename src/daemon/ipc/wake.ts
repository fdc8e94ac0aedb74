/** What wakes a process that sleeps in its event loop, in half the time of a message to a net.Socket. */
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

  /** To be sent to another process. @throws InvalidHandleError when closed */
  get fd(): number {
    return this.#descriptor.fd;
  }

  /** Wakes whoever watches the other end; several may be heard as one. False: nobody can hear it any more. */
  ring(): boolean {
    return requireIpc().ring(this.#descriptor.fd);
  }

  /** Calls the listener with true when the other end rang, and once with false when it has gone; null: no longer. */
  watch(listener: ((alive: boolean) => void) | null, { keepAlive = false }: WatchOptions = {}): void {
    if (typeof listener !== 'function') {
      this.#descriptor.watch(listener, keepAlive);
      return;
    }
    const native = requireIpc();
    const { fd } = this;
    const told = () => {
      const alive = native.drain(fd);
      if (!alive) native.watchFd(fd, null, false);
      listener(alive);
    };
    this.#descriptor.watch(told, keepAlive);
  }

  close(): void {
    this.#descriptor.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** Two connected ends: one stays here, the other's `fd` is sent, and then closed here. */
export function createWake(): [near: Wake, far: Wake] {
  const { near, far } = requireIpc().createWake();
  return [new Wake(near), new Wake(far)];
}
