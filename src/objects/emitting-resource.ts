import { EventEmitter } from 'node:events';
import { Resource } from './resource.ts';

/**
 * A resource that asynchronous events may be about. It has `on`, `once` and `off` of an EventEmitter, which
 * it makes when somebody first listens: most queue pairs never need one. Listening does not keep the
 * process alive.
 */
export abstract class EmittingResource<E extends Record<string, unknown[]>> extends Resource {
  private emitter: EventEmitter | null = null;

  /** Calls `listener` at each event of this name. */
  on<N extends keyof E & string>(name: N, listener: (...args: E[N]) => void): this {
    this.listened().on(name, listener as (...args: unknown[]) => void);
    return this;
  }

  /** Calls `listener` at the next event of this name. */
  once<N extends keyof E & string>(name: N, listener: (...args: E[N]) => void): this {
    this.listened().once(name, listener as (...args: unknown[]) => void);
    return this;
  }

  /** Takes a listener away. */
  off<N extends keyof E & string>(name: N, listener: (...args: E[N]) => void): this {
    this.emitter?.off(name, listener as (...args: unknown[]) => void);
    return this;
  }

  /** `off`, as EventEmitter has it: node:events' `once(object, name)` wants it. */
  removeListener<N extends keyof E & string>(name: N, listener: (...args: E[N]) => void): this {
    return this.off(name, listener);
  }

  /** How many listen to events of this name. */
  listenerCount(name: keyof E & string): number {
    return this.emitter?.listenerCount(name) ?? 0;
  }

  /** @internal */
  emit(name: string, ...args: unknown[]): boolean {
    return this.emitter?.emit(name, ...args) ?? false;
  }

  /** Sees to it that the device's events are listened to. @throws InvalidHandleError once closed */
  protected abstract watchEvents(): void;

  private listened(): EventEmitter {
    this.watchEvents();
    this.emitter ??= new EventEmitter();
    return this.emitter;
  }
}
