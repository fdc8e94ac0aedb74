/**
 * Unix stream sockets, until they become a net.Socket: peer credentials, and descriptors sent along with
 * bytes.
 */
import { lstatSync, type Stats, unlinkSync } from 'node:fs';
import { HandshakeError } from '../../verbs/errors.ts';
import { Descriptor, READABLE, requireFd, WRITABLE } from './descriptor.ts';
import { type PeerCredentials, type Received, requireIpc } from './native.ts';

export interface WatchOptions {
  /** Whether listening keeps the event loop alive. */
  keepAlive?: boolean;
}

export interface SocketWatchOptions extends WatchOptions {
  /** What to listen for. Default: something to receive. */
  events?: 'receive' | 'send' | 'both';
}

const EVENTS = { receive: READABLE, send: WRITABLE, both: READABLE | WRITABLE };

const ignore = () => {};

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

  /** @throws ConnectionError if the socket has no peer */
  peer(): PeerCredentials {
    return requireIpc().peerCredentials(this.#descriptor.fd);
  }

  /**
   * Whether the process that peer() names still runs, so that its number cannot have become another process's. Null if
   * the kernel cannot tell (before Linux 6.5).
   */
  isPeerAlive(): boolean | null {
    return requireIpc().isPeerAlive(this.#descriptor.fd) ?? null;
  }

  /**
   * Sends bytes, at least one, and at most 64 descriptors, which stay open here. All descriptors go with the
   * first byte.
   * @returns how many bytes were sent; 0 if nothing can be sent now
   * @throws ConnectionError if the peer has gone, or accepts no descriptors
   */
  send(bytes: Uint8Array, fds: readonly number[] = []): number {
    for (const fd of fds) requireFd('send', fd);
    return requireIpc().sendFds(this.#descriptor.fd, bytes, Uint32Array.from(fds));
  }

  /**
   * Receives bytes and at most `maxFds` descriptors, up to 64. Returns null if nothing has arrived, and 0
   * bytes if the peer has ended the stream.
   * @throws HandshakeError if the peer sent more descriptors; the socket should be closed. Closing descriptors may take as
   * long as a hostile peer likes: with `maxFds` 0 they stay in the socket, which close() closes in another thread;
   * otherwise they are closed here, so the peer must be trusted
   * @throws ConnectionError if the connection was reset
   */
  receive(buffer: Uint8Array, maxFds = 0): Received | null {
    const got = requireIpc().receiveFds(this.#descriptor.fd, buffer, maxFds);
    if (got === null) throw new HandshakeError('a descriptor, where none belongs');
    return got ?? null;
  }

  /** Calls the listener while there is something to receive, or room to send; null stops that. */
  watch(
    listener: (() => void) | null,
    { keepAlive = true, events = 'receive' }: SocketWatchOptions = {},
  ): void {
    this.#descriptor.watch(listener, keepAlive, EVENTS[events]);
  }

  /**
   * Releases the open descriptor for `new net.Socket({ fd, readable: true, writable: true })`; this object is
   * closed.
   */
  take(): number {
    return this.#descriptor.take();
  }

  /**
   * Ends the connection at once, and never waits. Descriptors that were not received are closed by another thread, after
   * which the socket is closed, too.
   * @param closed called once the socket is closed, in most cases at once
   */
  close(closed: () => void = ignore): void {
    this.#descriptor.closeSocket(closed);
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

export interface ListenOptions {
  /** Permissions of the socket's file; a process that may write to it may connect. */
  mode?: number;
  /** How many connections may wait to be accepted. */
  backlog?: number;
  /**
   * Whether peers may send descriptors. If not, Linux 6.16 and later refuse them at the sender. With earlier versions,
   * receive() reports them.
   */
  takesFds?: boolean;
}

export class UnixListener {
  readonly path: string;
  readonly #descriptor: Descriptor;
  readonly #file: Stats;

  /** Internal; use listenUnix(). */
  constructor(path: string, fd: number) {
    this.path = path;
    this.#descriptor = new Descriptor('the listener', fd);
    this.#file = lstatSync(path);
  }

  get closed(): boolean {
    return this.#descriptor.closed;
  }

  /**
   * The next connection, or null if none waits.
   * @throws NoResourcesError if no descriptors are left; the connection keeps waiting, so stop watching for a
   * while
   */
  accept(): UnixSocket | null {
    const fd = requireIpc().acceptUnix(this.#descriptor.fd);
    return fd < 0 ? null : new UnixSocket(fd);
  }

  /** Calls the listener while there are connections to accept; null stops that. */
  watch(listener: (() => void) | null, { keepAlive = true }: WatchOptions = {}): void {
    this.#descriptor.watch(listener, keepAlive);
  }

  /** Also closes waiting connections, and removes the socket's file unless another file has replaced it. */
  close(): void {
    if (this.closed) return;
    const { dev, ino } = this.#file;
    const now = lstatSync(this.path, { throwIfNoEntry: false });
    if (now?.dev === dev && now.ino === ino) unlinkSync(this.path);
    this.#descriptor.closeListener();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/**
 * Listens on a socket in the file system, in an existing folder. Until it listens, it holds the lock `PATH.lock`, a file
 * that only this user can open; what another user has left there is replaced. A stale socket file is removed, but not a
 * socket on which a process listens, or any other file.
 * @throws ConnectionError if a process already listens there (EADDRINUSE), or permissions forbid it
 * @throws InvalidArgumentError for a path over 107 bytes, a missing folder, or a file that is not a socket
 */
export function listenUnix(
  path: string,
  { mode = 0o600, backlog = 511, takesFds = false }: ListenOptions = {},
): UnixListener {
  return new UnixListener(path, requireIpc().listenUnix(path, mode, backlog, takesFds));
}

/**
 * Connects. Returns null if the listener's backlog is full; try again later.
 * @throws ConnectionError if no process listens, or permissions forbid it
 * @throws InvalidArgumentError for a path over 107 bytes
 */
export function connectUnix(path: string): UnixSocket | null {
  const fd = requireIpc().connectUnix(path);
  return fd < 0 ? null : new UnixSocket(fd);
}
