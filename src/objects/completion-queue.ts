import {
  type CqInfo,
  InvalidArgumentError,
  InvalidHandleError,
  SLOT_WORDS,
  slotAt,
  type WcBatch,
} from '../verbs/index.ts';
import { type Completion, readCompletion } from './completion.ts';
import { CompletionChannel } from './completion-channel.ts';
import type { Context } from './context.ts';
import type { QueuePair } from './queue-pair.ts';
import { CLOSE_RANK, Resource, requireOwned } from './resource.ts';

export interface CompletionQueueOptions {
  /** Entries wanted; at least the requests that may be outstanding on its queue pairs. Default 256. */
  cqe?: number;
  /** What wakes those who await; by default the context's own channel. null: polling only. */
  channel?: CompletionChannel | null;
}

export interface NextOptions {
  /** Gives the wait up; the promise rejects with the signal's reason. */
  signal?: AbortSignal;
}

export interface DrainOptions {
  /** Give up after this many milliseconds of real time. Default: never. */
  deadlineMs?: number;
}

interface Waiter {
  resolve(completion: Completion): void;
  reject(reason: unknown): void;
  release(): void;
}

const INBOX_CAPACITY = 64;
/** After so many completions in a row without a turn of the event loop, awaiting takes one. */
const STREAK_LIMIT = 256;

/** A completion queue (ibv_create_cq(3)): poll it into a batch, or await completions one by one. */
export class CompletionQueue extends Resource implements AsyncIterable<Completion> {
  readonly context: Context;
  readonly channel: CompletionChannel | null;
  /** Entries granted. */
  readonly cqe: number;
  private readonly cq: number;
  private readonly qps = new Map<number, QueuePair>();
  private readonly waiters = new Set<Waiter>();
  private inbox: WcBatch | null = null;
  private lastBatch: WcBatch | null = null;
  private inboxNext = 0;
  private streak = 0;
  private armed = false;
  private pumping = false;

  /** @internal Use context.createCq(). */
  constructor(context: Context, options: CompletionQueueOptions = {}) {
    const { cqe = 256 } = options;
    const channel = options.channel === undefined ? context.sharedChannel() : options.channel;
    if (channel !== null) requireOwned(channel, CompletionChannel, context, 'channel');
    const info: CqInfo = context.provider.createCq(context.handle, cqe, channel?.handle ?? 0);
    super({
      provider: context.provider,
      handle: info.handle,
      label: context.labelFor('completion queue'),
      rank: CLOSE_RANK.completionQueue,
      parents: channel === null ? [context] : [context, channel],
    });
    this.context = context;
    this.channel = channel;
    this.cqe = info.cqe;
    this.cq = info.handle;
    channel?.addQueue(this.cq, this);
  }

  /**
   * ibv_poll_cq(3) into `wc`: returns how many, 0 when there are none. Never waits, allocates nothing.
   * @throws InvalidHandleError
   */
  poll(wc: WcBatch, max = wc.capacity): number {
    if (wc !== this.lastBatch) {
      this.context.requireBatch(wc);
      this.lastBatch = wc;
    }
    const handle = this.handle;
    const kept = this.inbox === null ? 0 : this.takeKept(wc, max);
    const polled = kept < max ? this.provider.pollCq(handle, wc.ring, kept, max - kept) : 0;
    wc.length = kept + polled;
    return wc.length;
  }

  /**
   * The next completion, failed ones included: look at `status`. Waiting keeps the process alive. Several
   * may wait at once; they are served in order.
   * @throws InvalidHandleError when the queue is closed meanwhile
   */
  next(options: NextOptions = {}): Promise<Completion> {
    if (this.closed) return Promise.reject(this.closedError());
    if (options.signal?.aborted) return Promise.reject(options.signal.reason);
    if (this.waiters.size === 0 && this.streak < STREAK_LIMIT) {
      const completion = this.take();
      if (completion !== null) {
        this.streak++;
        return Promise.resolve(completion);
      }
    }
    return this.wait(options.signal);
  }

  /** `for await (const wc of cq)`: ends when the queue is closed. */
  [Symbol.asyncIterator](): AsyncIterator<Completion, undefined> {
    return {
      next: async () => {
        try {
          return { value: await this.next(), done: false };
        } catch (error) {
          if (this.closed && error instanceof InvalidHandleError) return { value: undefined, done: true };
          throw error;
        }
      },
      return: async () => ({ value: undefined, done: true }),
    };
  }

  /** The next `count` completions; fewer when the deadline comes first. */
  async drain(count: number, options: DrainOptions = {}): Promise<Completion[]> {
    const { deadlineMs } = options;
    const done: Completion[] = [];
    const deadline = new AbortController();
    const timer = deadlineMs === undefined ? undefined : setTimeout(() => deadline.abort(), deadlineMs);
    try {
      while (done.length < count) done.push(await this.next({ signal: deadline.signal }));
    } catch (error) {
      if (!deadline.signal.aborted) throw error;
    } finally {
      clearTimeout(timer);
    }
    return done;
  }

  /** @internal */
  addQp(handle: number, qp: QueuePair): void {
    this.qps.set(handle, qp);
  }

  /** @internal */
  removeQp(handle: number): void {
    this.qps.delete(handle);
  }

  /** @internal The channel saw an event of this queue. */
  onEvent(): void {
    this.armed = false;
    this.streak = 0;
    if (!this.closed && this.waiters.size > 0) this.pump();
  }

  private wait(signal: AbortSignal | undefined): Promise<Completion> {
    const { channel } = this;
    if (channel === null) {
      const text = `${this.label} was created with channel: null, so it can only be polled`;
      return Promise.reject(new InvalidArgumentError(text));
    }
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        waiter.release();
        reject(signal?.reason);
      };
      const waiter: Waiter = {
        resolve,
        reject,
        release: () => {
          if (!this.waiters.delete(waiter)) return;
          channel.letGo();
          signal?.removeEventListener('abort', onAbort);
        },
      };
      channel.retain();
      this.waiters.add(waiter);
      signal?.addEventListener('abort', onAbort);
      if (this.streak >= STREAK_LIMIT) setImmediate(() => this.onEvent());
      else this.pump();
    });
  }

  /**
   * Serves the waiters. When the queue is empty it is armed and looked at once more, since a completion
   * that came between the two raises no event.
   */
  private pump(): void {
    if (this.pumping) return;
    this.pumping = true;
    try {
      while (this.waiters.size > 0) {
        const completion = this.take();
        if (completion !== null) this.serve(completion);
        else if (this.armed) return;
        else this.arm();
      }
    } catch (error) {
      for (const waiter of [...this.waiters]) {
        waiter.release();
        waiter.reject(error);
      }
    } finally {
      this.pumping = false;
    }
  }

  private arm(): void {
    this.armed = true;
    this.provider.reqNotifyCq(this.handle, false);
  }

  private serve(completion: Completion): void {
    for (const waiter of this.waiters) {
      waiter.release();
      waiter.resolve(completion);
      return;
    }
  }

  private take(): Completion | null {
    this.inbox ??= this.context.wcBatch({ capacity: INBOX_CAPACITY });
    const inbox = this.inbox;
    if (this.inboxNext === inbox.length) {
      this.inboxNext = 0;
      inbox.length = this.provider.pollCq(this.handle, inbox.ring, 0, inbox.capacity);
      if (inbox.length === 0) return null;
    }
    return readCompletion(inbox, this.inboxNext++, this.qps);
  }

  /** Completions that awaiting had fetched and nobody took: a poll gets them first. */
  private takeKept(wc: WcBatch, max: number): number {
    const inbox = this.inbox as WcBatch;
    if (this.inboxNext === inbox.length) return 0;
    if (!(Number.isInteger(max) && max >= 0 && max <= wc.capacity)) {
      throw new InvalidArgumentError(`max ${max} does not fit into a batch of ${wc.capacity} completions`);
    }
    // Takes nothing, but refuses a batch that is closed: what is kept must not get lost in it.
    this.provider.pollCq(this.handle, wc.ring, 0, 0);
    let count = 0;
    while (count < max && this.inboxNext < inbox.length) {
      const from = slotAt(this.inboxNext++);
      wc.words.set(inbox.words.subarray(from, from + SLOT_WORDS), slotAt(count++));
    }
    return count;
  }

  protected override release(handle: number): void {
    this.provider.destroyCq(handle);
  }

  protected override released(): void {
    this.channel?.removeQueue(this.cq);
    this.inbox?.close();
    this.inbox = null;
    for (const waiter of [...this.waiters]) {
      waiter.release();
      waiter.reject(new InvalidHandleError(`${this.label} was closed while a completion was awaited`));
    }
  }
}
