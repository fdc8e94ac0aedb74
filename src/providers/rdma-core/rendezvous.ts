/** How two endpoints find each other on real devices: TCP, with length-prefixed messages. */
import { createServer, connect as netConnect, type Socket } from 'node:net';
import { ConnectionError, HandshakeError, InvalidArgumentError } from '../../verbs/errors.ts';
import type { Rendezvous, Wire, WireServer } from '../../verbs/provider.ts';

/** Connection data takes a few hundred bytes. A larger frame means that the peer speaks another protocol. */
export const MAX_FRAME_BYTES = 64 * 1024;

const PREFIX_BYTES = 4;
const CONNECT_TIMEOUT_MS = 10_000;
/** A peer whose host vanished sends nothing; the kernel probes it after this time. */
const KEEP_ALIVE_MS = 5_000;
/** How long a peer may take to close the connection after this side has. */
const LINGER_MS = 1_000;
/** The most messages that may wait until a listener is set. */
const MAX_WAITING = 16;

/** A TCP socket as a Wire: u32 length, big endian, followed by the message. */
class TcpWire implements Wire {
  readonly remoteAddress: string;
  private readonly socket: Socket;
  private chunks: Buffer[] = [];
  private bufferedBytes = 0;
  private closed = false;
  /** Whether this side has closed; messages that still arrive are discarded. */
  private closing = false;
  private failure: Error | undefined;
  private messageListener: ((message: Uint8Array) => void) | null = null;
  private closeListener: ((error?: Error) => void) | null = null;
  /** Messages received before a listener was set. */
  private waiting: Uint8Array[] = [];

  constructor(socket: Socket) {
    this.socket = socket;
    this.remoteAddress = `${socket.remoteAddress ?? ''}:${socket.remotePort ?? 0}`;
    socket.setNoDelay(true);
    socket.setKeepAlive(true, KEEP_ALIVE_MS);
    socket.on('data', (chunk) => this.receive(chunk));
    socket.on('error', (cause) => {
      this.failure ??= new ConnectionError(`${this.remoteAddress}: ${cause.message}`, { cause });
    });
    socket.on('close', () => this.finish());
  }

  get onMessage(): (message: Uint8Array) => void {
    return this.messageListener ?? (() => {});
  }

  set onMessage(listener: (message: Uint8Array) => void) {
    this.messageListener = listener;
    for (const message of this.waiting.splice(0)) listener(message);
  }

  get onClose(): (error?: Error) => void {
    return this.closeListener ?? (() => {});
  }

  set onClose(listener: (error?: Error) => void) {
    this.closeListener = listener;
    if (this.closed) queueMicrotask(() => listener(this.failure));
  }

  send(message: Uint8Array): void {
    if (message.length > MAX_FRAME_BYTES) {
      throw new InvalidArgumentError(`a message has at most ${MAX_FRAME_BYTES} bytes, got ${message.length}`);
    }
    if (this.closed || this.socket.writableEnded) return;
    const frame = Buffer.allocUnsafe(PREFIX_BYTES + message.length);
    frame.writeUInt32BE(message.length);
    frame.set(message, PREFIX_BYTES);
    this.socket.write(frame);
  }

  close(): void {
    if (this.closing) return;
    this.closing = true;
    this.waiting = [];
    this.socket.end();
    const timer = setTimeout(() => this.socket.destroy(), LINGER_MS);
    timer.unref();
    this.socket.once('close', () => clearTimeout(timer));
  }

  private receive(chunk: Buffer): void {
    if (this.failure !== undefined || this.closing) return;
    this.chunks.push(chunk);
    this.bufferedBytes += chunk.length;
    let data = this.chunks.length === 1 ? chunk : Buffer.concat(this.chunks);
    while (data.length >= PREFIX_BYTES) {
      const length = data.readUInt32BE();
      if (length > MAX_FRAME_BYTES) {
        this.failHandshake(`announced a message of ${length} bytes; at most ${MAX_FRAME_BYTES} are accepted`);
        return;
      }
      if (this.waiting.length >= MAX_WAITING) {
        this.failHandshake(`sent more than ${MAX_WAITING} messages before a listener was set`);
        return;
      }
      if (data.length < PREFIX_BYTES + length) break;
      // Copied, because the message must not be a view of a pooled buffer that will be overwritten.
      this.deliver(new Uint8Array(data.subarray(PREFIX_BYTES, PREFIX_BYTES + length)));
      data = data.subarray(PREFIX_BYTES + length);
    }
    this.chunks = data.length > 0 ? [data] : [];
    this.bufferedBytes = data.length;
  }

  private deliver(message: Uint8Array): void {
    if (this.messageListener === null) this.waiting.push(message);
    else this.messageListener(message);
  }

  private failHandshake(what: string): void {
    this.failure = new HandshakeError(`${this.remoteAddress} ${what}`);
    this.chunks = [];
    this.socket.destroy();
  }

  private finish(): void {
    if (this.closed) return;
    this.closed = true;
    if (this.failure === undefined && this.bufferedBytes > 0) {
      this.failure = new ConnectionError(
        `${this.remoteAddress} closed the connection in the middle of a message`,
      );
    }
    this.closeListener?.(this.failure);
  }
}

function checkPort(verb: string, port: unknown): void {
  if (typeof port === 'number' && Number.isInteger(port) && port >= 0 && port <= 65535) return;
  throw new InvalidArgumentError(`${verb}: port must be a whole number from 0 to 65535, got ${String(port)}`);
}

export const tcpRendezvous: Rendezvous = Object.freeze({
  async listen(
    _context: number,
    options: { port: number; host?: string },
    onWire: (wire: Wire) => void,
  ): Promise<WireServer> {
    checkPort('listen', options.port);
    const server = createServer((socket) => onWire(new TcpWire(socket)));
    await new Promise<void>((resolve, reject) => {
      server.once('error', (cause) => {
        reject(new ConnectionError(`cannot listen on port ${options.port}: ${cause.message}`, { cause }));
      });
      server.listen(options.port, options.host, resolve);
    });
    // A failed accept (out of descriptors) must not end the process. The peer sees its connection refused.
    server.on('error', () => {});
    const address = server.address();
    const port = typeof address === 'object' && address !== null ? address.port : options.port;
    return { port, close: () => void server.close() };
  },

  async connect(
    _context: number,
    options: { port: number; host?: string; timeoutMs?: number },
  ): Promise<Wire> {
    const { port, host = 'localhost', timeoutMs = CONNECT_TIMEOUT_MS } = options;
    checkPort('connect', port);
    const socket = netConnect({ port, host });
    return await new Promise<Wire>((resolve, reject) => {
      const fail = (why: string, cause?: Error) => {
        clearTimeout(timer);
        socket.destroy();
        reject(new ConnectionError(`cannot connect to ${host}:${port}: ${why}`, { cause }));
      };
      const timer = setTimeout(() => fail(`no answer within ${timeoutMs} ms`), timeoutMs);
      const onError = (cause: Error) => fail(cause.message, cause);
      socket.once('error', onError);
      socket.once('connect', () => {
        clearTimeout(timer);
        socket.off('error', onError);
        resolve(new TcpWire(socket));
      });
    });
  },
});
