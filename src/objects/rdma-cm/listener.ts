import { EventEmitter } from 'node:events';
import {
  type CmEvent,
  ConnectionError,
  InvalidArgumentError,
  InvalidStateError,
  RDMA_CM_EVENT_CONNECT_REQUEST,
} from '../../verbs/index.ts';
import { type CmEnvironment, DevicePool } from './device-pool.ts';
import { Identifier } from './identifier.ts';
import { type CmListenOptions, requireOptions } from './options.ts';
import { addressOf } from './resolve.ts';

const DEFAULT_BACKLOG = 128;

/** Base of the servers for connections and datagrams: a listening identifier and its lifetime. */
export abstract class CmListener<
  Events extends Record<keyof Events, unknown[]>,
> extends EventEmitter<Events> {
  protected readonly env: CmEnvironment;
  protected readonly pool: DevicePool;
  private readonly portSpace: number;
  /** Requests without an answer. */
  protected readonly unanswered = new Set<Identifier>();
  protected id: Identifier | null = null;
  private state: 'new' | 'starting' | 'listening' | 'closing' | 'closed' = 'new';
  private keepsAlive = true;

  constructor(env: CmEnvironment, portSpace: number) {
    super();
    this.env = env;
    this.portSpace = portSpace;
    this.pool = new DevicePool(env, true);
  }

  /** Whether the server accepts requests. */
  get listening(): boolean {
    return this.state === 'listening';
  }

  /**
   * Starts listening (rdma_bind_addr(3), rdma_listen(3)), then emits 'listening' or 'error'. A number is the port.
   * @throws InvalidStateError on the second call, InvalidArgumentError when `options` is not an object
   */
  listen(options: CmListenOptions | number = {}, onListening?: () => void): this {
    if (this.state !== 'new') {
      throw new InvalidStateError('listen: this server was already started; create another one');
    }
    const where = typeof options === 'number' ? { port: options } : requireOptions('listen', options);
    this.state = 'starting';
    if (onListening !== undefined) this.once('listening' as never, onListening as never);
    void this.start(where);
    return this;
  }

  /** Address and port that the server listens on; null when it does not listen. */
  address(): { address: string; port: number } | null {
    return this.id === null || this.id.closed ? null : this.id.info().local;
  }

  /**
   * Stops listening and rejects unanswered requests. After the last connection has closed, 'close' is emitted and
   * `onClose` called. Calling it twice does nothing.
   */
  close(onClose?: () => void): this {
    if (onClose !== undefined) {
      if (this.state === 'closed') process.nextTick(onClose);
      else this.once('close' as never, onClose as never);
    }
    if (this.state === 'closing' || this.state === 'closed') return this;
    this.state = 'closing';
    this.id?.destroy();
    for (const request of [...this.unanswered]) request.destroy();
    this.unanswered.clear();
    this.settle();
    return this;
  }

  /** Lets the process exit while the server listens. */
  unref(): this {
    this.keepsAlive = false;
    this.id?.keepAlive(false);
    return this;
  }

  /** Makes the listening server keep the process alive, as it does by default. */
  ref(): this {
    this.keepsAlive = true;
    this.id?.keepAlive(true);
    return this;
  }

  /** Handles a request. */
  protected abstract onRequest(id: Identifier, event: CmEvent): void;

  /** Whether the server still has open connections. */
  protected abstract busy(): boolean;

  /** Runs after the address is bound, before the server listens. */
  protected async started(_id: Identifier): Promise<void> {}

  /** Runs once, after the server has closed. */
  protected ended(): void {}

  /** Finishes close() when no object is open. */
  protected settle(): void {
    if (this.state !== 'closing' || this.busy()) return;
    this.state = 'closed';
    this.ended();
    this.pool.close();
    process.nextTick(() => this.emit('close' as never, ...([] as never)));
  }

  private async start({ port = 0, host, backlog = DEFAULT_BACKLOG }: CmListenOptions): Promise<void> {
    const { provider } = this.env;
    try {
      requirePort(port);
      const address = host === undefined ? '0.0.0.0' : await addressOf(provider, host);
      if (this.state !== 'starting') return;
      const id = Identifier.create(provider, this.portSpace);
      this.id = id;
      id.listen((event) => this.onEvent(id, event));
      id.cm.bindAddr(id.handle, { address, port });
      await this.started(id);
      if (this.state !== 'starting') return;
      id.cm.listen(id.handle, backlog);
      this.state = 'listening';
      id.keepAlive(this.keepsAlive);
      process.nextTick(() => this.emit('listening' as never, ...([] as never)));
    } catch (error) {
      this.id?.destroy();
      if (this.state !== 'starting') return;
      this.close();
      process.nextTick(() => this.emit('error' as never, ...([error] as never)));
    }
  }

  private onEvent(listener: Identifier, event: CmEvent): void {
    if (event.event !== RDMA_CM_EVENT_CONNECT_REQUEST) return;
    const id = listener.incoming(event);
    this.unanswered.add(id);
    process.nextTick(() => {
      if (!id.closed) this.onRequest(id, event);
    });
  }
}

function requirePort(port: unknown): void {
  if (typeof port === 'number' && Number.isInteger(port) && port >= 0 && port <= 65535) return;
  throw new InvalidArgumentError(`listen: port must be an integer from 0 to 65535, got ${String(port)}`);
}

/** The error of a request that the server's close() interrupted. */
export function closedError(before: string): ConnectionError {
  return new ConnectionError(`the server was closed ${before}`);
}
