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

/** What servers of connections and of datagrams have in common: an identifier that listens, and its end. */
export abstract class CmListener<
  Events extends Record<keyof Events, unknown[]>,
> extends EventEmitter<Events> {
  protected readonly env: CmEnvironment;
  protected readonly pool: DevicePool;
  private readonly portSpace: number;
  /** Requests that nobody has answered. */
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

  /** Whether it takes callers. */
  get listening(): boolean {
    return this.state === 'listening';
  }

  /**
   * Listens (rdma_bind_addr(3), rdma_listen(3)): 'listening' is emitted, or 'error'. A number is the port.
   * @throws InvalidStateError when it has listened before, InvalidArgumentError for options that are no object
   */
  listen(options: CmListenOptions | number = {}, onListening?: () => void): this {
    if (this.state !== 'new') {
      throw new InvalidStateError('listen: this server has been told to listen before; make another');
    }
    const where = typeof options === 'number' ? { port: options } : requireOptions('listen', options);
    this.state = 'starting';
    if (onListening !== undefined) this.once('listening' as never, onListening as never);
    void this.start(where);
    return this;
  }

  /** Where it listens; null when it does not. */
  address(): { address: string; port: number } | null {
    return this.id === null || this.id.closed ? null : this.id.info().local;
  }

  /**
   * Takes no more calls; requests that nobody has answered are rejected. 'close' is emitted, and `onClose`
   * called, when the last connection has been closed. Twice does nothing.
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

  /** Listening no longer keeps the process alive. */
  unref(): this {
    this.keepsAlive = false;
    this.id?.keepAlive(false);
    return this;
  }

  /** Keeps the process alive while it listens, as it does at first. */
  ref(): this {
    this.keepsAlive = true;
    this.id?.keepAlive(true);
    return this;
  }

  /** Who called. */
  protected abstract onRequest(id: Identifier, event: CmEvent): void;

  /** Whether anything of it is still open. */
  protected abstract busy(): boolean;

  /** Runs when it listens, before 'listening' is emitted. */
  protected async started(_id: Identifier): Promise<void> {}

  /** Runs once, when it has been closed. */
  protected ended(): void {}

  /** Ends it once nothing is open any more. */
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

export function closedError(before: string): ConnectionError {
  return new ConnectionError(`the server was closed ${before}`);
}
