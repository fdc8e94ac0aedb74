/** How the ends of a test speak, beside what they measure: both exchange what is as long on both sides. */
import { createServer, connect as dial, type Socket } from 'node:net';
import { ConnectionError, HandshakeError } from '../verbs/errors.ts';

/** An end that takes longer to answer is none. A test itself may take as long as it likes. */
export const ANSWER_TIMEOUT_MS = 60_000;

export type Role = 'server' | 'client';

/** One end. The client writes first, as perftest has it. */
export interface Channel {
  readonly role: Role;
  /** How queue pairs are told of: as text, or as a structure of C. */
  readonly destinationFormat: 'text' | 'struct';
  /** Why there is nothing more to come; null while there is. */
  ended: Error | null;
  /** Called when it is. */
  onEnd: (() => void) | null;
  /**
   * Sends `mine`, and gets as many bytes of the other end. Patient: for as long as that takes.
   * @throws ConnectionError, HandshakeError
   */
  exchange(mine: Uint8Array, options?: { patient?: boolean }): Promise<Buffer>;
  /** Says goodbye as perftest does, and closes. */
  close(): void;
  /** Closes at once: the test failed. */
  destroy(): void;
}

/** Why a channel ended. */
export const endedError = (reason: string) =>
  new ConnectionError(`Failed to exchange data between server and clients: ${reason}`);

export const noAnswerError = () =>
  new HandshakeError(`the other end sent nothing for ${ANSWER_TIMEOUT_MS / 1000} s: no perftest?`);

/** Over TCP. */
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
    socket.on('close', () => this.end('it closed the connection'));
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
    // The other end may have gone without closing: nothing waits for it.
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

  private async read(bytes: number, patienceMs: number | null): Promise<Buffer> {
    let late = false;
    const timer =
      patienceMs === null
        ? undefined
        : setTimeout(() => {
            late = true;
            this.wake?.();
          }, patienceMs);
    try {
      while (this.length < bytes) {
        if (this.ended !== null) throw this.ended;
        if (late) throw noAnswerError();
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

/** Connects to a server, from any address or from one's own. @throws ConnectionError */
export async function connectTo(host: string, port: number, localAddress?: string): Promise<Channel> {
  const socket = dial({ host, port, localAddress });
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

/** Waits for a client, at one address or at all. @throws ConnectionError when nobody can listen there */
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
