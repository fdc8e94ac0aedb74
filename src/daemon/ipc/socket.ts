/** Unix stream sockets until they become a net.Socket: who the peer is, and descriptors that go with bytes. */
import { lstatSync, type Stats, unlinkSync } from 'node:fs';
import { Descriptor, requireFd } from './descriptor.ts';
import { type PeerCredentials, type Received, requireIpc } from './native.ts';

export interface WatchOptions {
  /** Whether listening keeps the event loop alive. */
  keepAlive?: boolean;
}

/** A connected socket. Nothing here blocks. */
export class UnixSocket {
  readonly #descriptor: Descriptor;

  /** Takes over a connected Unix stream socket. */
  constructor(fd: number) {
    this.#descriptor = new Descriptor('the socket', fd);
  }

  get closed(): boolean {
    return this.#descriptor.closed;
  }

  /** @throws ConnectionError when the socket has no peer */
  peer(): PeerCredentials {
    return requireIpc().peerCredentials(this.#descriptor.fd);
  }

  /**
   * Sends bytes, at least one, and descriptors, at most 64, which stay open here. Returns how many bytes went, all
   * descriptors with the first; 0: nothing can go now.
   * @throws ConnectionError when the peer has gone, or takes no descriptors
   */
  send(bytes: Uint8Array, fds: readonly number[] = []): number {
    for (const fd of fds) requireFd('send', fd);
    return requireIpc().sendFds(this.#descriptor.fd, bytes, Uint32Array.from(fds));
  }

  /**
   * Receives bytes and at most `maxFds` descriptors, up to 64; null: nothing is there yet. 0 bytes: the peer has
   * ended the stream.
   * @throws HandshakeError when the peer sent more descriptors; all are closed, and so should be the socket
   * @throws ConnectionError when the connection was reset
   */
  receive(buffer: Uint8Array, maxFds = 0): Received | null {
    return requireIpc().receiveFds(this.#descriptor.fd, buffer, maxFds) ?? null;
  }

  /** Calls the listener as long as there is something to receive; null: no longer. */
  watch(listener: (() => void) | null, { keepAlive = true }: WatchOptions = {}): void {
    this.#descriptor.watch(listener, keepAlive);
  }

  /** The descriptor, open, for `new net.Socket({ fd, readable: true, writable: true })`; this object is closed. */
  take(): number {
    return this.#descriptor.take();
  }

  close(): void {
    this.#descriptor.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

export interface ListenOptions {
  /** Permissions of the socket's file: who may write to it may connect. */
  mode?: number;
  /** How many connections may wait to be accepted. */
  backlog?: number;
  /**
   * Whether peers may send descriptors. If not, Linux 6.16 and later refuse them; before, they are closed, which a
   * hostile peer can make last (SO_LINGER).
   */
  takesFds?: boolean;
}

export class UnixListener {
  readonly path: string;
  readonly #descriptor: Descriptor;
  readonly #file: Stats;

  /** Not for users: listenUnix() makes them. */
  constructor(path: string, fd: number) {
    this.path = path;
    this.#descriptor = new Descriptor('the listener', fd);
    this.#file = lstatSync(path);
  }

  get closed(): boolean {
    return this.#descriptor.closed;
  }

  /**
   * The next connection, or null when none waits.
   * @throws NoResourcesError when there are no more descriptors; the connection waits on, so stop watching for a while
   */
  accept(): UnixSocket | null {
    const fd = requireIpc().acceptUnix(this.#descriptor.fd);
    return fd < 0 ? null : new UnixSocket(fd);
  }

  /** Calls the listener as long as there are connections to accept; null: no longer. */
  watch(listener: (() => void) | null, { keepAlive = true }: WatchOptions = {}): void {
    this.#descriptor.watch(listener, keepAlive);
  }

  /** Removes the socket's file too, unless another has taken its place. */
  close(): void {
    if (this.closed) return;
    const { dev, ino } = this.#file;
    const now = lstatSync(this.path, { throwIfNoEntry: false });
    if (now?.dev === dev && now.ino === ino) unlinkSync(this.path);
    this.#descriptor.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/**
 * Listens on a socket in the file system, whose folder must be there. A socket that was left behind is removed; where
 * somebody answers, or something else has the path, it is not.
 * @throws ConnectionError when somebody listens there already (EADDRINUSE), or permissions forbid it
 * @throws InvalidArgumentError for a path over 107 bytes, a folder that is missing, or a file that is no socket
 */
export function listenUnix(
  path: string,
  { mode = 0o600, backlog = 511, takesFds = false }: ListenOptions = {},
): UnixListener {
  return new UnixListener(path, requireIpc().listenUnix(path, mode, backlog, takesFds));
}

/**
 * Connects; null: so many wait there that it must be tried again later.
 * @throws ConnectionError when nobody listens, or permissions forbid it
 * @throws InvalidArgumentError for a path over 107 bytes
 */
export function connectUnix(path: string): UnixSocket | null {
  const fd = requireIpc().connectUnix(path);
  return fd < 0 ? null : new UnixSocket(fd);
}
