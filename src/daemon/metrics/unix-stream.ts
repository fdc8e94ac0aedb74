/** A Unix socket as a stream, which reads and writes in small pieces, and never with descriptors. */
import { Duplex } from 'node:stream';
import type { UnixSocket } from '../ipc/index.ts';

/** One receive buffer for all streams. Its content is copied before the next read. */
const RECEIVED = new Uint8Array(4096);
/** Time between attempts to write to a peer that does not read. */
const RETRY_MS = 2;

export class UnixStream extends Duplex {
  private readonly socket: UnixSocket;
  private retryTimer: NodeJS.Timeout | undefined;

  /** Takes over the socket. It is closed once everything is written after end(). */
  constructor(socket: UnixSocket) {
    super();
    this.socket = socket;
    this.once('finish', () => this.destroy());
  }

  override _read(): void {
    if (!this.socket.closed) this.socket.watch(() => this.receive());
  }

  private receive(): void {
    try {
      const got = this.socket.receive(RECEIVED);
      if (got === null) return;
      const wantsMore = this.push(got.bytes === 0 ? null : Buffer.from(RECEIVED.subarray(0, got.bytes)));
      if ((got.bytes === 0 || !wantsMore) && !this.socket.closed) this.socket.watch(null);
    } catch (error) {
      this.destroy(error as Error);
    }
  }

  override _write(chunk: Buffer, encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    try {
      const sent = this.socket.send(chunk);
      if (sent < chunk.length) {
        const rest = chunk.subarray(sent);
        this.retryTimer = setTimeout(() => this._write(rest, encoding, done), RETRY_MS);
      } else done();
    } catch (error) {
      done(error as Error);
    }
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    clearTimeout(this.retryTimer);
    this.socket.close();
    done(error);
  }
}
