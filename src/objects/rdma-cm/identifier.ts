/** Identifiers on one event channel. Each receives its own events, one by one or by a listener. */
import {
  type CmEvent,
  type CmIdInfo,
  ConnectionError,
  type ConnectionManager,
  type Provider,
  RDMA_CM_EVENT_CONNECT_REQUEST,
  UnsupportedError,
} from '../../verbs/index.ts';
import { CmError } from './errors.ts';

/** The event channel of a connection manager, open while it has identifiers. */
class EventChannel {
  readonly cm: ConnectionManager;
  readonly handle: number;
  private readonly ids = new Map<number, Identifier>();
  private holders = 0;

  constructor(cm: ConnectionManager) {
    this.cm = cm;
    this.handle = cm.createEventChannel();
    cm.watchEventChannel(this.handle, (event) => this.dispatch(event));
  }

  add(id: Identifier): void {
    this.ids.set(id.handle, id);
  }

  remove(id: Identifier): void {
    this.ids.delete(id.handle);
    // Deferred: this may run inside the listener.
    if (this.ids.size === 0) setImmediate(() => this.closeIfIdle());
  }

  retain(): void {
    if (this.holders++ === 0) this.cm.refEventChannel(this.handle, true);
  }

  release(): void {
    if (--this.holders === 0) this.cm.refEventChannel(this.handle, false);
  }

  private dispatch(event: CmEvent): void {
    const request = event.event === RDMA_CM_EVENT_CONNECT_REQUEST;
    const id = this.ids.get(request ? event.listenId : event.id);
    if (id !== undefined) id.onEvent(event);
    else if (request) this.cm.destroyId(event.id);
  }

  private closeIfIdle(): void {
    if (this.ids.size > 0 || channels.get(this.cm) !== this) return;
    channels.delete(this.cm);
    this.cm.watchEventChannel(this.handle, null);
    this.cm.destroyEventChannel(this.handle);
  }
}

const channels = new Map<ConnectionManager, EventChannel>();

function channelOf(provider: Provider): EventChannel {
  const { cm, cmError } = provider;
  if (cm === null) throw new UnsupportedError(`provider ${provider.name} has no rdma_cm: ${cmError}`);
  const channel = channels.get(cm) ?? new EventChannel(cm);
  channels.set(cm, channel);
  return channel;
}

/** An rdma_cm_id. Events without a consumer are queued. */
export class Identifier {
  readonly cm: ConnectionManager;
  readonly handle: number;
  readonly portSpace: number;
  /** The name of the provider. */
  private readonly provider: string;
  private readonly channel: EventChannel;
  private readonly early: CmEvent[] = [];
  private listener: ((event: CmEvent) => void) | null = null;
  private waiter: { resolve: (event: CmEvent) => void; reject: (error: unknown) => void } | null = null;
  private failure: { error: unknown } | null = null;
  private keptAlive = false;
  private open = true;

  private constructor(channel: EventChannel, handle: number, portSpace: number, provider: string) {
    this.cm = channel.cm;
    this.channel = channel;
    this.handle = handle;
    this.portSpace = portSpace;
    this.provider = provider;
    channel.add(this);
  }

  /** Creates an identifier. @throws UnsupportedError when the provider has no rdma_cm */
  static create(provider: Provider, portSpace: number): Identifier {
    const channel = channelOf(provider);
    const handle = channel.cm.createId(channel.handle, portSpace);
    return new Identifier(channel, handle, portSpace, provider.name);
  }

  /** The new identifier of a CONNECT_REQUEST. */
  incoming(event: CmEvent): Identifier {
    return new Identifier(this.channel, event.id, this.portSpace, this.provider);
  }

  get closed(): boolean {
    return !this.open;
  }

  info(): CmIdInfo {
    return this.cm.queryId(this.handle);
  }

  /** Waits for the event `wanted`. @throws CmError for any other event, or the error given to fail() */
  async expect(what: string, wanted: number): Promise<CmEvent> {
    const event = await this.next();
    if (event.event !== wanted) throw this.failed(what, event);
    return event;
  }

  /** The error for an event that ends an attempt or a connection. */
  failed(what: string, event: CmEvent): CmError {
    return new CmError(what, event, this.portSpace, this.provider);
  }

  /** Passes queued and future events to this listener. */
  listen(listener: (event: CmEvent) => void): void {
    this.listener = listener;
    for (const event of this.early.splice(0)) listener(event);
  }

  /** Rejects present and future waits with this error. */
  fail(error: unknown): void {
    this.failure ??= { error };
    const { waiter } = this;
    this.waiter = null;
    waiter?.reject(error);
  }

  /** Checks that no event is queued. @throws CmError for a queued event, or the error given to fail() */
  check(what: string): void {
    if (this.failure !== null) throw this.failure.error;
    const early = this.early.shift();
    if (early !== undefined) throw this.failed(what, early);
  }

  /** Whether waiting for its events keeps the process alive. */
  keepAlive(on: boolean): void {
    if (on === this.keptAlive || (on && !this.open)) return;
    this.keptAlive = on;
    if (on) this.channel.retain();
    else this.channel.release();
  }

  /** rdma_destroy_id(3): notifies the peer and rejects waits for events. Calling it twice does nothing. */
  destroy(): void {
    if (!this.open) return;
    this.keepAlive(false);
    this.open = false;
    this.cm.destroyId(this.handle);
    this.channel.remove(this);
    this.fail(new ConnectionError('this end was closed before the connection was established'));
  }

  /** @internal Called by the event channel. */
  onEvent(event: CmEvent): void {
    const { waiter } = this;
    this.waiter = null;
    if (this.listener !== null) this.listener(event);
    else if (waiter !== null) waiter.resolve(event);
    else this.early.push(event);
  }

  private next(): Promise<CmEvent> {
    if (this.failure !== null) return Promise.reject(this.failure.error);
    const early = this.early.shift();
    if (early !== undefined) return Promise.resolve(early);
    return new Promise((resolve, reject) => {
      this.waiter = { resolve, reject };
    });
  }
}
