import {
  type CqInfo,
  type CqOptions,
  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
  InvalidArgumentError,
  InvalidHandleError,
  requireKnown,
  SLOT_WORDS,
  slotAt,
  type WcBatch,
} from '../verbs/index.ts';
import type { CqEvent, EventsOf } from './async-events.ts';
import { type Completion, readCompletion, type Stamps } from './completion.ts';
import type { CompletionChannel } from './completion-channel.ts';
import type { Context } from './context.ts';
import { EmittingResource, type EventSource } from './emitting-resource.ts';
import { type Claim, Inbox } from './inbox.ts';
import { requireOwned } from './resource.ts';

/** What context.createCq() takes. */
export interface CompletionQueueOptions {
  /** Entries wanted; at least the requests that may be outstanding on its queue pairs. Default 256. */
  cqe?: number;
  /** What wakes those who await; by default the context's own channel. null: polling only. */
  channel?: CompletionChannel | null;
  /** Which of the device's completion vectors (interrupts) raises its events. Default 0. */
  compVector?: number;
  /** Completions carry `ticks`, the device's clock (ibv_create_cq_ex(3)). Default false. */
  timestamps?: boolean;
  /** Completions carry `wallclockNs`, the time of day. Default false. */
  wallclock?: boolean;
}

/** When a queue that is armed raises its event. */
export interface ModerationOptions {
  /** One event stands for so many completions, */
  count: number;
  /** or for those of so many microseconds, whichever comes first. */
  periodUs: number;
}

/** How to wait for a completion. */
export interface NextOptions {
  /** Gives the wait up; the promise rejects with the signal's reason. */
  signal?: AbortSignal;
  /**
   * Sleep on until a completion comes that its sender marked as solicited, or a failed one; what has come
   * before it is then given first. Completions that are there already are given at once. Default false.
   */
  solicitedOnly?: boolean;
}

/** What cq.drain() takes. */
export interface DrainOptions {
  /** Give up after this many milliseconds of real time. Default: never. */
  deadlineMs?: number;
}

interface Waiter {
  solicitedOnly: boolean;
  resolve(completion: Completion): void;
  reject(reason: unknown): void;
  release(): void;
}

const INBOX_CAPACITY = 64;
/** After so many completions in a row without a turn of the event loop, awaiting takes one. */
const STREAK_LIMIT = 256;

/** What the next event was asked for. */
const ARMED_NOT = 0;
const ARMED_SOLICITED = 1;
const ARMED_ANY = 2;

/**
 * A completion queue (ibv_create_cq(3)): poll it into a batch, or await completions one by one.
 * It emits 'cqErr' when it overflowed: make it as large as all that may be outstanding.
 */
export class CompletionQueue
  extends EmittingResource<EventsOf<CqEvent>>
  implements AsyncIterable<Completion>
{
  /** @internal */
  readonly kind = 'CompletionQueue';
  readonly context: Context;
  readonly channel: CompletionChannel | null;
  private granted: number;
  private readonly cq: number;
  private readonly stamps: Stamps;
  private readonly waiters = new Set<Waiter>();
  private inbox: Inbox | null = null;
  private lastBatch: WcBatch | null = null;
  private claims = 0;
  private streak = 0;
  private armed = ARMED_NOT;
  private pumping = false;

  /** @internal Use context.createCq(). */
  constructor(context: Context, options: CompletionQueueOptions = {}) {
    requireKnown('createCq', options, ['cqe', 'channel', 'compVector', 'timestamps', 'wallclock']);
    const { cqe = 256, timestamps = false, wallclock = false } = options;
    const channel = options.channel === undefined ? context.sharedChannel() : options.channel;
    if (channel !== null) requireOwned(channel, 'CompletionChannel', context, 'channel');
    const info = createCq(context, cqe, channel?.handle ?? 0, options);
    super({
      provider: context.provider,
      handle: info.handle,
      label: context.labelFor('completion queue'),
      parents: channel === null ? [context] : [context, channel],
    });
    this.context = context;
    this.channel = channel;
    this.granted = info.cqe;
    this.cq = info.handle;
    this.stamps = { ticks: timestamps, wallclock };
    channel?.addQueue(this.cq, this);
    context.addEventSubject(this.cq, this);
  }

  /** Entries granted. */
  get cqe(): number {
    return this.granted;
  }

  /**
   * ibv_resize_cq(3): returns the entries granted.
   * @throws BusyError when more completions wait in it
   * @throws UnsupportedError
   */
  resize(cqe: number): number {
    this.granted = this.provider.resizeCq(this.handle, cqe);
    return this.granted;
  }

  /** ibv_modify_cq(3): fewer events for those who sleep, each for more completions. @throws UnsupportedError */
  moderate(options: ModerationOptions): void {
    this.provider.modifyCq(this.handle, options.count, options.periodUs);
  }

  /**
   * ibv_poll_cq(3) into `wc`: returns how many, 0 when there are none. Never waits, allocates nothing.
   * @throws InvalidHandleError
   */
  poll(wc: WcBatch, max = wc?.capacity): number {
    if (wc !== this.lastBatch) {
      this.context.requireBatch(wc);
      this.lastBatch = wc;
    }
    const handle = this.handle;
    const kept = this.inbox === null ? 0 : this.takeStored(wc, max);
    const polled =
      kept < max && this.claims === 0 ? this.provider.pollCq(handle, wc.ring, kept, max - kept) : 0;
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
    return this.waitForNext(options);
  }

  /** `for await (const wc of cq)`: ends when the queue is closed. */
  [Symbol.asyncIterator](): AsyncIterator<Completion, undefined> {
    return this.completions()[Symbol.asyncIterator]();
  }

  /** `for await (const wc of cq.completions({ solicitedOnly: true }))`: the same, with next()'s options. */
  completions(options: NextOptions = {}): AsyncIterableIterator<Completion, undefined> {
    return {
      [Symbol.asyncIterator]() {
        return this;
      },
      next: async () => {
        try {
          return { value: await this.next(options), done: false };
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

  /** @internal This claim comes first, for all completions of a queue pair, until `done` is called. */
  claimQp(qp: number, claim: Claim): () => void {
    const inbox = this.openInbox();
    inbox.claimQp(qp, claim);
    return this.startClaim(() => inbox.unclaimQp(qp));
  }

  /** @internal The same, for the one completion that will come back with `tag` (newTag()) of a queue pair. */
  claimTag(tag: bigint, qp: number, claim: Claim): () => void {
    const inbox = this.openInbox();
    inbox.claimTag(tag, qp, claim);
    return this.startClaim(() => inbox.unclaimTag(tag));
  }

  /** @internal Gives claims what is there. */
  distribute(): void {
    if (!this.closed && this.claims > 0) this.openInbox().distribute();
  }

  /** @internal */
  read(words: Uint32Array, at: number): Completion {
    return readCompletion(words, at, this.context, this.stamps);
  }

  /** @internal A queue pair of this queue was closed or reset: those who await completions of it get `error`. */
  abandon(qp: number, error: () => Error): void {
    if (this.claims > 0) this.inbox?.abandon(qp, error);
  }

  /** @internal The channel saw an event of this queue. */
  onEvent(): void {
    this.armed = ARMED_NOT;
    this.streak = 0;
    if (!this.closed && (this.waiters.size > 0 || this.claims > 0)) this.pump();
  }

  private startClaim(unclaim: () => void): () => void {
    this.claims++;
    this.channel?.addWaiter();
    // Whoever claims has yet to post: look when it has.
    if (this.channel === null) setImmediate(this.pollClaims);
    else queueMicrotask(() => !this.closed && this.pump());
    let done = false;
    return () => {
      if (done) return;
      done = true;
      unclaim();
      this.claims--;
      this.channel?.removeWaiter();
    };
  }

  /** Without a channel, nothing wakes those who claimed: they look once per turn. */
  private readonly pollClaims = (): void => {
    if (this.closed || this.claims === 0) return;
    try {
      this.openInbox().distribute();
    } catch (error) {
      this.fail(error);
      return;
    }
    if (this.claims > 0) setImmediate(this.pollClaims);
  };

  /** It could not be polled or armed: everyone who waits is told. */
  private fail(error: unknown): void {
    for (const waiter of [...this.waiters]) {
      waiter.release();
      waiter.reject(error);
    }
    this.inbox?.fail(error);
  }

  private waitForNext({ signal, solicitedOnly = false }: NextOptions): Promise<Completion> {
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
        solicitedOnly,
        resolve,
        reject,
        release: () => {
          if (!this.waiters.delete(waiter)) return;
          channel.removeWaiter();
          signal?.removeEventListener('abort', onAbort);
        },
      };
      channel.addWaiter();
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
      while (this.waiters.size > 0 || this.claims > 0) {
        if (this.waiters.size === 0) this.openInbox().distribute();
        const completion = this.waiters.size === 0 ? null : this.take();
        const wanted = this.wantedEvent();
        if (completion !== null) this.serve(completion);
        else if (this.armed >= wanted) return;
        else this.arm(wanted);
      }
    } catch (error) {
      this.fail(error);
    } finally {
      this.pumping = false;
    }
  }

  /** The least of events that wakes all who wait. */
  private wantedEvent(): number {
    if (this.claims > 0) return ARMED_ANY;
    for (const waiter of this.waiters) if (!waiter.solicitedOnly) return ARMED_ANY;
    return this.waiters.size > 0 ? ARMED_SOLICITED : ARMED_NOT;
  }

  private arm(wanted: number): void {
    this.provider.reqNotifyCq(this.handle, wanted === ARMED_SOLICITED);
    this.armed = wanted;
  }

  private serve(completion: Completion): void {
    for (const waiter of this.waiters) {
      waiter.release();
      waiter.resolve(completion);
      return;
    }
  }

  private openInbox(): Inbox {
    this.inbox ??= new Inbox(this.context.wcBatch({ capacity: INBOX_CAPACITY }), (batch) =>
      this.provider.pollCq(this.handle, batch.ring, 0, batch.capacity),
    );
    return this.inbox;
  }

  private take(): Completion | null {
    const inbox = this.openInbox();
    return inbox.take() ? this.read(inbox.words, inbox.at) : null;
  }

  /** Completions that awaiting had fetched and nobody took: a poll gets them first. */
  private takeStored(wc: WcBatch, max: number): number {
    const inbox = this.inbox as Inbox;
    if (!inbox.hasStored && this.claims === 0) return 0;
    if (!(Number.isInteger(max) && max >= 0 && max <= wc.capacity)) {
      throw new InvalidArgumentError(`max ${max} does not fit into a batch of ${wc.capacity} completions`);
    }
    // Takes nothing, but refuses a batch that is closed: what is kept must not get lost in it.
    this.provider.pollCq(this.handle, wc.ring, 0, 0);
    let count = 0;
    while (count < max && (inbox.hasStored || this.claims > 0) && inbox.take()) {
      wc.words.set(inbox.words.subarray(inbox.at, inbox.at + SLOT_WORDS), slotAt(count++));
    }
    return count;
  }

  protected override eventSource(): EventSource {
    return this.context.asyncEvents;
  }

  protected override release(handle: number): void {
    this.provider.destroyCq(handle);
  }

  protected override released(): void {
    this.channel?.removeQueue(this.cq);
    this.context.removeEventSubject(this.cq);
    this.inbox?.close();
    this.inbox = null;
    for (const waiter of [...this.waiters]) {
      waiter.release();
      waiter.reject(new InvalidHandleError(`${this.label} was closed while a completion was awaited`));
    }
  }
}

function createCq(context: Context, cqe: number, channel: number, options: CompletionQueueOptions): CqInfo {
  const { compVector, timestamps, wallclock } = options;
  const wcFlags =
    (timestamps ? IBV_WC_EX_WITH_COMPLETION_TIMESTAMP : 0) |
    (wallclock ? IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK : 0);
  if (compVector === undefined && wcFlags === 0)
    return context.provider.createCq(context.handle, cqe, channel);
  const how: CqOptions = { compVector, wcFlags };
  return context.provider.createCq(context.handle, cqe, channel, how);
}
