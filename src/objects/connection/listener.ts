import { EventEmitter } from 'node:events';
import { ConnectionError, IsoverbsError, type Wire, type WireServer } from '../../verbs/index.ts';
import type { Context } from '../context.ts';
import { requireContext } from '../resource.ts';
import { connectionError } from '../support/diagnostics.ts';
import type { Connection } from './connection.ts';
import type { FrameChannel } from './frame-channel.ts';
import type { PrivateData } from './frames.ts';
import { accept, withDeadline } from './handshake.ts';
import type { ListenOptions } from './options.ts';
import { requireSchema } from './schema.ts';

const DEFAULT_MAX_PENDING = 128;

/** Events of a listener. */
export interface ListenerEvents<T = PrivateData | undefined> {
  connection: [connection: Connection<T>];
  /** The handshake with a caller failed; the listener continues. */
  clientError: [error: Error, from: { remoteAddress: string }];
  error: [error: Error];
  close: [];
}

/** Accepts connections; created by listen(). */
export class Listener<T = PrivateData | undefined> extends EventEmitter<ListenerEvents<T>> {
  private readonly context: Context;
  private readonly options: ListenOptions<T>;
  private readonly pending = new Set<FrameChannel>();
  private server: WireServer | null = null;
  private over = false;

  /** @internal Use listen(). */
  constructor(context: Context, options: ListenOptions<T>) {
    super();
    requireContext('listen', context, options);
    requireSchema(options.remoteSchema);
    this.context = context;
    this.options = options;
  }

  /** The port on which it listens. */
  get port(): number {
    return this.server?.port ?? this.options.port;
  }

  /** Stops listening and aborts pending handshakes. Established connections stay open. */
  close(): void {
    if (this.over) return;
    this.over = true;
    this.server?.close();
    this.context.detach(this);
    this.options.signal?.removeEventListener('abort', this.onAbort);
    for (const channel of this.pending) channel.abort(new ConnectionError('the listener was closed'));
    process.nextTick(() => this.emit('close'));
  }

  private readonly onAbort = () => this.close();

  /** close(), for `using`. */
  [Symbol.dispose](): void {
    this.close();
  }

  /** @internal */
  async start(): Promise<this> {
    const { port, host, signal } = this.options;
    const { context } = this;
    signal?.throwIfAborted();
    try {
      this.server = await context.provider.rendezvous.listen(context.handle, { port, host }, (wire) => {
        void this.take(wire);
      });
    } catch (cause) {
      if (cause instanceof IsoverbsError) throw cause;
      const where = `${host ?? '*'}:${port}`;
      throw new ConnectionError(`cannot listen on ${where}: ${(cause as Error).message}`, { cause });
    }
    if (context.closed) this.server.close();
    else context.attach(this);
    signal?.addEventListener('abort', this.onAbort);
    if (!signal?.aborted) return this;
    this.close();
    throw signal.reason;
  }

  private async take(wire: Wire): Promise<void> {
    const { maxPending = DEFAULT_MAX_PENDING, timeoutMs } = this.options;
    if (this.over || this.pending.size >= maxPending) return wire.close();
    let channel: FrameChannel | null = null;
    try {
      const { connection, announced } = await withDeadline(wire, { timeoutMs }, (opened) => {
        channel = opened;
        this.pending.add(opened);
        return accept(this.context, { ...this.options, port: this.port }, opened);
      });
      process.nextTick(() => {
        try {
          this.emit('connection', connection);
        } finally {
          announced();
        }
      });
    } catch (error) {
      const { remoteAddress } = wire;
      const { context } = this;
      if (connectionError.hasSubscribers)
        connectionError.publish({ context, side: 'listen', address: remoteAddress, error });
      if (!this.over) process.nextTick(() => this.emit('clientError', error as Error, { remoteAddress }));
    } finally {
      if (channel !== null) this.pending.delete(channel);
    }
  }
}

/**
 * Listens for connections on this device: TCP on real devices, in memory on simulated ones. Each caller gets a queue
 * pair created from the options. `onConnection` receives the established connection, before any completion of it can
 * be polled or awaited. `T` is the type of the callers' private data, as in connect().
 * @throws ConnectionError when the port is in use
 */
export async function listen<T = PrivateData | undefined>(
  context: Context,
  options: ListenOptions<T>,
  onConnection?: (connection: Connection<T>) => void,
): Promise<Listener<T>> {
  const listener = new Listener(context, options);
  if (onConnection !== undefined) listener.on('connection', onConnection);
  return listener.start();
}
