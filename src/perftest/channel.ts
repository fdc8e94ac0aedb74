/** The control channel between the ends of a test. Each exchange sends messages of equal length in both directions. */
import { connect as connectSocket, createServer, type Socket } from 'node:net';
import { ConnectionError, HandshakeError } from '../verbs/errors.ts';

/** Timeout of an answer in the handshake. A test itself may take any time. */
export const ANSWER_TIMEOUT_MS = 60_000;

export type Role = 'server' | 'client';

/** One end of the channel. As in perftest, the client writes first. */
export interface Channel {
  readonly role: Role;
  /** How destinations are encoded: as text, or as a C structure. */
  readonly destinationFormat: 'text' | 'struct';
  /** The reason why the channel ended; null while it is open. */
  ended: Error | null;
  /** Called when the channel ends. */
  onEnd: (() => void) | null;
  /**
   * Sends `mine` and returns as many bytes from the other end. With `patient` there is no timeout.
   * @throws ConnectionError, HandshakeError
   */
  exchange(mine: Uint8Array, options?: { patient?: boolean }): Promise<Buffer>;
  /** Closes after perftest's final message. */
  close(): void;
  /** Closes at once, after the test failed. */
  destroy(): void;
}

/** The error of a channel that ended early. */
export const endedError = (reason: string) =>
  new ConnectionError(`Failed to exchange data between server and clients: ${reason}`);

/** The error of an answer that timed out. */
export const noAnswerError = () =>
  new HandshakeError(
    `the other end sent nothing for ${ANSWER_TIMEOUT_MS / 1000} s; does it speak perftest's protocol?`,
  );

/** A channel over TCP. */
export class TcpChannel implements Channel {
  readonly role: Role;
  readonly destinationFormat = 'text';
  ended: Error | null = null;
  onEnd: (() => void) | null = null;
  private readonly socket: Socket;
  private arrived: Buffer[] = [];
  private length = 0;
  private wake: (() => void) | null = null;

  constructor(socket: Socket, role: Role) {
    this.socket = socket;
    this.role = role;
    socket.setNoDelay(true);
    socket.setKeepAlive(true, ANSWER_TIMEOUT_MS);
    socket.on('data', (bytes: Buffer) => {
      this.arrived.push(bytes);
      this.length += bytes.length;
      this.wake?.();
    });
    socket.on('error', (error) => this.end(error.message));
    socket.on('close', () => this.end('the other end closed the connection'));
  }

  async exchange(mine: Uint8Array, options: { patient?: boolean } = {}): Promise<Buffer> {
    if (this.role === 'client') this.socket.write(mine);
    const theirs = await this.read(mine.length, options.patient === true ? null : ANSWER_TIMEOUT_MS);
    if (this.role === 'server') this.socket.write(mine);
    return theirs;
  }

  close(): void {
    this.socket.removeAllListeners('close');
    this.socket.on('error', () => {});
    this.socket.end('done\0');
    // The other end may have died without closing: do not wait for it.
    this.socket.unref();
  }

  destroy(): void {
    this.socket.destroy();
  }

  private end(reason: string): void {
    this.ended ??= endedError(reason);
    this.wake?.();
    this.onEnd?.();
  }

  private async read(bytes: number, timeoutMs: number | null): Promise<Buffer> {
    let isLate = false;
    const timer =
      timeoutMs === null
        ? undefined
        : setTimeout(() => {
            isLate = true;
            this.wake?.();
          }, timeoutMs);
    try {
      while (this.length < bytes) {
        if (this.ended !== null) throw this.ended;
        if (isLate) throw noAnswerError();
        await new Promise<void>((resolve) => {
          this.wake = resolve;
        });
      }
    } finally {
      clearTimeout(timer);
      this.wake = null;
    }
    const all = Buffer.concat(this.arrived);
    this.arrived = [all.subarray(bytes)];
    this.length -= bytes;
    return all.subarray(0, bytes);
  }
}

/** Connects to a server, optionally from `localAddress`. @throws ConnectionError */
export async function connectTo(host: string, port: number, localAddress?: string): Promise<Channel> {
  const socket = connectSocket({ host, port, localAddress });
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve);
    socket.once('error', (error) =>
      reject(
        new ConnectionError(
          `Couldn't connect to ${host}:${port}: ${error.message}. Is the server running there?`,
        ),
      ),
    );
  });
  socket.removeAllListeners('error');
  return new TcpChannel(socket, 'client');
}

/** Waits for a client on `host`, or on all addresses. @throws ConnectionError when the port cannot be listened on */
export function listenOn(
  port: number,
  listening: (port: number) => void = () => {},
  host?: string,
): Promise<Channel> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => {
      server.close();
      resolve(new TcpChannel(socket, 'server'));
    });
    server.on('error', (error) =>
      reject(new ConnectionError(`Couldn't listen to port ${port}: ${error.message}`)),
    );
    server.listen({ port, host }, () => {
      const address = server.address();
      if (typeof address === 'object' && address !== null) listening(address.port);
    });
  });
}
