/** Asynchronous events (ibv_get_async_event(3)) as typed objects. */
import { asyncEventName } from '../verbs/index.ts';
import type { CompletionQueue } from './completion-queue.ts';
import type { Context } from './context.ts';
import type { EventSource } from './emitting-resource.ts';
import type { QueuePair } from './queue-pair.ts';
import type { SharedReceiveQueue } from './shared-receive-queue.ts';
import { asyncEvent as asyncEventChannel } from './support/diagnostics.ts';

interface Base<T extends string> {
  /** Name of the IBV_EVENT_* constant without the prefix, such as 'QP_FATAL'. */
  type: T;
  /** IBV_EVENT_* */
  event: number;
}

/** An event of a queue pair. */
export interface QpEvent
  extends Base<
    | 'QP_FATAL'
    | 'QP_REQ_ERR'
    | 'QP_ACCESS_ERR'
    | 'COMM_EST'
    | 'SQ_DRAINED'
    | 'PATH_MIG'
    | 'PATH_MIG_ERR'
    | 'QP_LAST_WQE_REACHED'
  > {
  qp: QueuePair;
}

/** A completion queue overflowed. */
export interface CqEvent extends Base<'CQ_ERR'> {
  cq: CompletionQueue;
}

/** An event of a shared receive queue. */
export interface SrqEvent extends Base<'SRQ_ERR' | 'SRQ_LIMIT_REACHED'> {
  srq: SharedReceiveQueue;
}

/** An event of a port. */
export interface PortEvent
  extends Base<
    | 'PORT_ACTIVE'
    | 'PORT_ERR'
    | 'LID_CHANGE'
    | 'PKEY_CHANGE'
    | 'SM_CHANGE'
    | 'CLIENT_REREGISTER'
    | 'GID_CHANGE'
  > {
  portNum: number;
}

/** The whole device failed: nothing on it works from now on. Close the context. */
export interface DeviceEvent extends Base<'DEVICE_FATAL'> {}

/** Any asynchronous event, as context.events() and listeners receive it. */
export type AsyncEvent = QpEvent | CqEvent | SrqEvent | PortEvent | DeviceEvent;

/** Name of an event for listeners: 'qpLastWqeReached' for 'QP_LAST_WQE_REACHED'. */
export type EventName<T extends string> = T extends `${infer Head}_${infer Tail}`
  ? `${Lowercase<Head>}${Capitalize<EventName<Tail>>}`
  : Lowercase<T>;

/** Maps the event names of an object to the arguments of its listeners. */
export type EventsOf<E extends AsyncEvent> = { [T in E['type'] as EventName<T>]: [event: E & { type: T }] };

/** Events of a context: 'event' for every event, and events of its ports and of the device by name. */
export type ContextEvents = { event: [event: AsyncEvent] } & EventsOf<PortEvent | DeviceEvent>;

function eventName(type: string): string {
  return type.toLowerCase().replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
}

/** An object to which asynchronous events refer. */
export type EventSubject = QueuePair | CompletionQueue | SharedReceiveQueue;

/** Contexts with pending waits for events. The reference keeps them from being garbage-collected. */
const awaitedContexts = new Set<Context>();

/** The events of one context. The provider is watched from the first listener or stream on. */
export class AsyncEvents implements EventSource {
  private readonly context: Context;
  private readonly subjects = new Map<number, EventSubject>();
  private readonly streams = new Set<EventStream>();
  private watched = false;
  private waiters = 0;

  constructor(context: Context) {
    this.context = context;
  }

  add(handle: number, element: EventSubject): void {
    this.subjects.set(handle, element);
  }

  remove(handle: number): void {
    this.subjects.delete(handle);
  }

  /** The queue pair, completion queue or shared receive queue with this handle. */
  find(handle: number): EventSubject | undefined {
    return this.subjects.get(handle);
  }

  /** @throws InvalidHandleError once the context is closed */
  watch(): void {
    const { handle, provider } = this.context;
    if (this.watched) return;
    // The provider's reference must not keep an abandoned context alive.
    const weak = new WeakRef(this);
    provider.watchAsyncEvents(handle, (event, element) => weak.deref()?.deliver(event, element));
    this.watched = true;
  }

  /** All events from now on, until `signal` aborts, the loop ends or the context closes. */
  stream(signal?: AbortSignal): EventStream {
    this.watch();
    const stream = new EventStream(this, signal);
    if (signal?.aborted !== true) this.streams.add(stream);
    return stream;
  }

  end(stream: EventStream): void {
    this.streams.delete(stream);
  }

  /** Registers a waiter. The first one keeps the process alive. */
  addWaiter(): void {
    this.watch();
    if (this.waiters++ > 0) return;
    awaitedContexts.add(this.context);
    this.context.provider.refAsyncEvents(this.context.handle, true);
  }

  removeWaiter(): void {
    if (--this.waiters > 0) return;
    awaitedContexts.delete(this.context);
    if (!this.context.closed) this.context.provider.refAsyncEvents(this.context.handle, false);
  }

  /** Called while the context closes. */
  stop(handle: number): void {
    if (this.watched) this.context.provider.watchAsyncEvents(handle, null);
    this.watched = false;
  }

  /** Called after the context was closed. */
  stopped(): void {
    for (const stream of [...this.streams]) void stream.return();
  }

  private deliver(event: number, element: number): void {
    const object = this.subjects.get(element);
    const asyncEvent = eventOf(event, element, object);
    if (asyncEvent === null) return;
    if (asyncEventChannel.hasSubscribers)
      asyncEventChannel.publish({ context: this.context, event: asyncEvent });
    for (const stream of this.streams) stream.push(asyncEvent);
    const name = eventName(asyncEvent.type);
    try {
      (object ?? this.context).emit(name, asyncEvent);
    } finally {
      this.context.emit('event', asyncEvent);
    }
  }
}

/** Builds the event; null when its object was closed in the meantime. */
function eventOf(event: number, element: number, object: EventSubject | undefined): AsyncEvent | null {
  const type = asyncEventName(event);
  if (/^(QP_|COMM_|SQ_|PATH_)/.test(type)) return object ? ({ type, event, qp: object } as QpEvent) : null;
  if (type.startsWith('CQ_')) return object ? ({ type, event, cq: object } as CqEvent) : null;
  if (type.startsWith('SRQ_')) return object ? ({ type, event, srq: object } as SrqEvent) : null;
  if (type === 'DEVICE_FATAL') return { type, event };
  return { type, event, portNum: element } as PortEvent;
}

/** `for await (const event of context.events())`: buffers every event since its creation. */
export class EventStream implements AsyncIterableIterator<AsyncEvent, undefined> {
  private readonly source: AsyncEvents;
  private readonly signal: AbortSignal | undefined;
  private readonly onAbort = () => {
    // A rejected `for await` loop does not call return(), so the stream unregisters itself.
    this.source.end(this);
    this.settle((waiter) => waiter.reject(this.signal?.reason));
  };
  private readonly queued: AsyncEvent[] = [];
  private readonly waiters: {
    resolve: (result: IteratorResult<AsyncEvent, undefined>) => void;
    reject: (reason: unknown) => void;
  }[] = [];
  private over = false;

  constructor(source: AsyncEvents, signal: AbortSignal | undefined) {
    this.source = source;
    this.signal = signal;
    signal?.addEventListener('abort', this.onAbort, { once: true });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<AsyncEvent, undefined>> {
    const value = this.queued.shift();
    if (value !== undefined) return { value, done: false };
    if (this.over) return { value: undefined, done: true };
    this.signal?.throwIfAborted();
    this.source.addWaiter();
    return new Promise((resolve, reject) => this.waiters.push({ resolve, reject }));
  }

  async return(): Promise<IteratorResult<AsyncEvent, undefined>> {
    this.over = true;
    this.source.end(this);
    this.signal?.removeEventListener('abort', this.onAbort);
    this.settle((waiter) => waiter.resolve({ value: undefined, done: true }));
    return { value: undefined, done: true };
  }

  push(event: AsyncEvent): void {
    const waiter = this.waiters.shift();
    if (waiter === undefined) {
      this.queued.push(event);
      return;
    }
    this.source.removeWaiter();
    waiter.resolve({ value: event, done: false });
  }

  private settle(settleWaiter: (waiter: EventStream['waiters'][number]) => void): void {
    for (const waiter of this.waiters.splice(0)) {
      this.source.removeWaiter();
      settleWaiter(waiter);
    }
  }
}
