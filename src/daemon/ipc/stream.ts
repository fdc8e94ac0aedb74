/**
 * A connection to an untrusted peer, on the event loop: what it sends, and a queue of what it has not read yet. A
 * net.Socket would take descriptors for ordinary data, and the kernel would close them in this thread.
 */
import type { UnixSocket } from './socket.ts';

export interface StreamListeners {
  /** The bytes are valid until the call returns. */
  received(bytes: Uint8Array): void;
  /** The number of bytes that wait for the peer to read has changed by this. */
  waiting(changeBytes: number): void;
  /** The peer has disconnected (null), or the connection has failed: a HandshakeError if the peer sent a descriptor. */
  ended(error: Error | null): void;
}

export class UnixStream {
  private readonly raw: UnixSocket;
  private readonly buffer: Uint8Array;
  private readonly on: StreamListeners;
  private readonly unsent: Uint8Array[] = [];
  private watched: 'receive' | 'send' | 'both' | 'nothing' = 'nothing';
  private isPaused = false;
  private hasEnded = false;

  /**
   * Takes over a connected socket.
   * @param buffer receives the bytes; several streams may share one
   */
  constructor(raw: UnixSocket, buffer: Uint8Array, on: StreamListeners) {
    [this.raw, this.buffer, this.on] = [raw, buffer, on];
    this.watch();
  }

  private watch(): void {
    if (this.raw.closed || this.hasEnded) return;
    const sends = this.unsent.length > 0;
    const wanted = this.isPaused ? (sends ? 'send' : 'nothing') : sends ? 'both' : 'receive';
    if (wanted === this.watched) return;
    this.watched = wanted;
    if (wanted === 'nothing') this.raw.watch(null);
    else this.raw.watch(() => this.proceed(), { events: wanted });
  }

  private proceed(): void {
    if (this.unsent.length > 0) this.flush();
    if (!this.isPaused) this.receive();
  }

  private receive(): void {
    let bytes = -1;
    try {
      bytes = this.raw.receive(this.buffer)?.bytes ?? -1;
    } catch (error) {
      this.end(error as Error);
    }
    if (bytes === 0) this.end(null);
    else if (bytes > 0) this.on.received(this.buffer.subarray(0, bytes));
  }

  /** Stops receiving. */
  pause(): void {
    this.isPaused = true;
    this.watch();
  }

  resume(): void {
    this.isPaused = false;
    this.watch();
  }

  /** Sends bytes, now or when the peer has read others. They must not change afterwards. */
  write(bytes: Uint8Array): void {
    if (this.raw.closed || this.hasEnded) return;
    this.unsent.push(bytes);
    this.on.waiting(bytes.length);
    if (this.unsent.length === 1) this.flush();
  }

  private flush(): void {
    const { raw, unsent } = this;
    let isFull = false;
    try {
      while (unsent.length > 0 && !isFull) {
        const [bytes] = unsent;
        const sent = raw.send(bytes);
        this.on.waiting(-sent);
        isFull = sent < bytes.length;
        if (isFull) unsent[0] = bytes.subarray(sent);
        else unsent.shift();
      }
    } catch (error) {
      this.dropUnsent();
      // The caller may be in the middle of something that the end of this connection would change.
      setImmediate(() => this.end(error as Error));
    }
    this.watch();
  }

  private end(error: Error | null): void {
    if (this.raw.closed || this.hasEnded) return;
    this.raw.watch(null);
    this.hasEnded = true;
    this.on.ended(error);
  }

  private dropUnsent(): void {
    for (const { length } of this.unsent.splice(0)) this.on.waiting(-length);
  }

  /**
   * Calls `received` and `ended` no more.
   * @param closed see UnixSocket.close()
   */
  close(closed: () => void): void {
    this.dropUnsent();
    this.raw.close(closed);
  }
}
