import { EventEmitter } from 'node:events';
import { Resource } from './resource.ts';

/** Options of nextEvent() and context.events(). */
export interface EventsOptions {
  /** Aborts the wait with the signal's reason. */
  signal?: AbortSignal;
}

/** The events of a context. */
export interface EventSource {
  /** Starts delivering events. @throws InvalidHandleError once the context is closed */
  watch(): void;
  /** Registers a waiter. The first one keeps the process alive. */
  addWaiter(): void;
  /** Removes a waiter. */
  removeWaiter(): void;
}

/**
 * A resource that asynchronous events can refer to. It has `on`, `once` and `off` of an EventEmitter. The emitter
 * itself is created by the first listener, because most queue pairs never need one. Listening does not keep the
 * process alive.
 */
export abstract class EmittingResource<E extends Record<string, unknown[]>> extends Resource {
  private emitter: EventEmitter | null = null;

  /** Calls `listener` at each event of this name. */
  on<N extends keyof E & string>(name: N, listener: (...args: E[N]) => void): this {
    this.ensureEmitter().on(name, listener as (...args: unknown[]) => void);
    return this;
  }

  /** Calls `listener` at the next event of this name. */
  once<N extends keyof E & string>(name: N, listener: (...args: E[N]) => void): this {
    this.ensureEmitter().once(name, listener as (...args: unknown[]) => void);
    return this;
  }

  /** Removes a listener. */
  off<N extends keyof E & string>(name: N, listener: (...args: E[N]) => void): this {
    this.emitter?.off(name, listener as (...args: unknown[]) => void);
    return this;
  }

  /** Same as `off`. `once(object, name)` of node:events requires it. */
  removeListener<N extends keyof E & string>(name: N, listener: (...args: E[N]) => void): this {
    return this.off(name, listener);
  }

  /**
   * Resolves with the next event of this name: `const { srq } = await srq.nextEvent('srqLimitReached')`. Waiting
   * keeps the process alive.
   * @throws InvalidHandleError when the object is closed during the wait
   */
  nextEvent<N extends keyof E & string>(name: N, options: EventsOptions = {}): Promise<E[N][0]> {
    const { signal } = options;
    return new Promise((resolve, reject) => {
      if (this.closed) throw this.closedError();
      signal?.throwIfAborted();
      const source = this.eventSource();
      source.addWaiter();
      const end = () => {
        source.removeWaiter();
        this.off(name, onEvent);
        offClose();
        signal?.removeEventListener('abort', onAbort);
      };
      const onEvent = (...[event]: E[N]) => {
        end();
        resolve(event);
      };
      const onAbort = () => {
        end();
        reject(signal?.reason);
      };
      const offClose = this.onClose(() => {
        end();
        reject(this.closedError());
      });
      this.on(name, onEvent);
      signal?.addEventListener('abort', onAbort);
    });
  }

  /** Number of listeners for events of this name. */
  listenerCount(name: keyof E & string): number {
    return this.emitter?.listenerCount(name) ?? 0;
  }

  /** @internal */
  emit(name: string, ...args: unknown[]): boolean {
    return this.emitter?.emit(name, ...args) ?? false;
  }

  /** The source of its events. */
  protected abstract eventSource(): EventSource;

  private ensureEmitter(): EventEmitter {
    if (this.closed) throw this.closedError();
    this.eventSource().watch();
    this.emitter ??= new EventEmitter();
    return this.emitter;
  }
}
