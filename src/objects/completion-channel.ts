import type { CompletionQueue } from './completion-queue.ts';
import type { Context } from './context.ts';
import { Resource } from './resource.ts';

/** Channels with waiters. The reference keeps them from being garbage-collected. */
const awaitedChannels = new Set<CompletionChannel>();

/**
 * A completion channel (ibv_create_comp_channel(3)) wakes the waiters of its completion queues. By default all
 * queues of a context share one; create others to separate them.
 */
export class CompletionChannel extends Resource {
  /** @internal */
  readonly kind = 'CompletionChannel';
  readonly context: Context;
  private readonly queues = new Map<number, CompletionQueue>();
  private waiters = 0;
  private watched = false;

  /** @internal Use context.createChannel(). */
  constructor(context: Context) {
    super({
      provider: context.provider,
      handle: context.provider.createCompChannel(context.handle),
      label: context.labelFor('completion channel'),
      parents: [context],
    });
    this.context = context;
  }

  /** @internal */
  addQueue(handle: number, queue: CompletionQueue): void {
    this.queues.set(handle, queue);
  }

  /** @internal */
  removeQueue(handle: number): void {
    this.queues.delete(handle);
  }

  /** @internal Registers a waiter. The first one keeps the process alive. */
  addWaiter(): void {
    if (!this.watched) {
      this.watched = true;
      const weak = new WeakRef(this);
      this.provider.watchCompChannel(this.handle, (cq) => weak.deref()?.queues.get(cq)?.onEvent());
    }
    if (this.waiters++ > 0) return;
    awaitedChannels.add(this);
    this.provider.refCompChannel(this.handle, true);
  }

  /** @internal */
  removeWaiter(): void {
    if (--this.waiters > 0) return;
    awaitedChannels.delete(this);
    if (!this.closed) this.provider.refCompChannel(this.handle, false);
  }

  protected override release(handle: number): void {
    if (this.watched) this.provider.watchCompChannel(handle, null);
    this.watched = false;
    this.provider.destroyCompChannel(handle);
  }
}
