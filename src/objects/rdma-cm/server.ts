import { on } from 'node:events';
import { type CmEvent, InvalidStateError, RDMA_PS_TCP } from '../../verbs/index.ts';
import { accept } from './connect.ts';
import type { CmConnection } from './connection.ts';
import type { CmEnvironment } from './device-pool.ts';
import { textOf } from './errors.ts';
import type { Identifier } from './identifier.ts';
import { CmListener, closedError } from './listener.ts';
import { bytesOf, type CmAcceptOptions, type CmPrivateData } from './options.ts';
import { splitPrivateData } from './private-data.ts';

/** Events of a server. */
export interface ServerEvents {
  listening: [];
  /** A connection was established. */
  connection: [connection: CmConnection];
  /** A client requests a connection. A listener must accept() or reject() it; without one all are accepted. */
  connectRequest: [request: ConnectRequest];
  /** An accepted connection was not established; the server continues. */
  clientError: [error: Error, from: { remoteAddress: string; remotePort: number }];
  /** The server cannot listen. */
  error: [error: Error];
  /** The server and its connections have closed. */
  close: [];
}

/** A request for a connection. */
export class ConnectRequest {
  readonly remoteAddress: string;
  readonly remotePort: number;
  /** The local address that the client named. */
  readonly localAddress: string;
  /** The device that received the request. */
  readonly deviceName: string;
  /** Private data of the client, padded with zeros to 56 bytes. */
  readonly privateData: Uint8Array;
  private readonly id: Identifier;
  private readonly respond: (accepted: CmAcceptOptions | null) => Promise<CmConnection> | null;
  private answered = false;

  /** @internal */
  constructor(
    id: Identifier,
    event: CmEvent,
    decide: (accepted: CmAcceptOptions | null) => Promise<CmConnection> | null,
  ) {
    const { local, remote, deviceName } = id.info();
    this.remoteAddress = remote.address;
    this.remotePort = remote.port;
    this.localAddress = local.address;
    this.deviceName = deviceName;
    this.privateData = splitPrivateData(event.privateData).data;
    this.id = id;
    this.respond = decide;
  }

  /** privateData as text, without the padding. */
  get privateText(): string {
    return textOf(this.privateData);
  }

  /**
   * Creates the queue pair and the connection. Options override those of the server. The server also emits
   * 'connection'.
   * @throws CmError when the client has disappeared, InvalidStateError on the second answer
   */
  async accept(options: CmAcceptOptions = {}): Promise<CmConnection> {
    this.markAnswered('accept');
    return this.respond(options) as Promise<CmConnection>;
  }

  /** Rejects the request (rdma_reject(3)), with at most 148 bytes of private data. */
  reject(privateData?: CmPrivateData): void {
    const data = bytesOf(privateData);
    this.markAnswered('reject');
    this.respond(null);
    try {
      this.id.cm.reject(this.id.handle, data);
    } finally {
      this.id.destroy();
    }
  }

  private markAnswered(what: string): void {
    if (this.answered) throw new InvalidStateError(`${what}: this request was already answered`);
    this.answered = true;
    if (this.id.closed) throw closedError('before the request was answered');
  }
}

/** Accepts connections; created by createServer(). Async iteration yields the connections until it is closed. */
export class Server extends CmListener<ServerEvents> implements AsyncIterable<CmConnection> {
  private readonly options: CmAcceptOptions;
  private readonly connections = new Set<CmConnection>();
  private readonly accepting = new Set<Identifier>();

  /** @internal Use createServer(). */
  constructor(env: CmEnvironment, options: CmAcceptOptions = {}) {
    super(env, RDMA_PS_TCP);
    this.options = options;
  }

  /** Closes established connections and aborts pending ones. */
  closeAllConnections(): void {
    for (const id of this.accepting) id.fail(closedError('before the connection was established'));
    for (const connection of [...this.connections]) connection.close();
  }

  /** Closes the server and its connections; resolves when all are closed. */
  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise<void>((resolve) => this.close(resolve));
    this.closeAllConnections();
    await closed;
  }

  /** `for await (const connection of server)`. The loop ends when the server is closed. */
  async *[Symbol.asyncIterator](): AsyncGenerator<CmConnection, undefined> {
    const emitter = this as unknown as NodeJS.EventEmitter;
    for await (const [connection] of on(emitter, 'connection', { close: ['close'] })) yield connection;
  }

  protected override onRequest(id: Identifier, event: CmEvent): void {
    const request = new ConnectRequest(id, event, (options) => {
      this.unanswered.delete(id);
      return options === null ? null : this.take(id, event, options);
    });
    if (this.listenerCount('connectRequest') > 0) {
      this.emit('connectRequest', request);
      return;
    }
    const { remoteAddress, remotePort } = request;
    request.accept().catch((error: Error) => {
      process.nextTick(() => this.emit('clientError', error, { remoteAddress, remotePort }));
    });
  }

  protected override busy(): boolean {
    return this.connections.size > 0 || this.accepting.size > 0;
  }

  private async take(id: Identifier, event: CmEvent, options: CmAcceptOptions): Promise<CmConnection> {
    this.accepting.add(id);
    id.keepAlive(true);
    try {
      const connection = await accept(id, event, this.pool, { ...this.options, ...options });
      this.connections.add(connection);
      connection.once('close', () => {
        this.connections.delete(connection);
        this.settle();
      });
      process.nextTick(() => this.emit('connection', connection));
      return connection;
    } catch (error) {
      id.destroy();
      throw error;
    } finally {
      this.accepting.delete(id);
      this.settle();
    }
  }
}
