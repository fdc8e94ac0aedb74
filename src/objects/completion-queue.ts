import {
  type CqInfo,
  type CqOptions,
  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
  IBV_WC_SUCCESS,
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
import { completionError } from './support/diagnostics.ts';

/** Options of context.createCq(). */
export interface CompletionQueueOptions {
  /** Entries to request: at least as many as requests can be outstanding on its queue pairs. Default 256. */
  cqe?: number;
  /** Channel that wakes waiters. Default: the shared channel of the context. null: the queue can only be polled. */
  channel?: CompletionChannel | null;
  /** Completion vector (interrupt) of the device that raises its events. Default 0. */
  compVector?: number;
  /** Completions carry `ticks`, a timestamp of the device's clock (ibv_create_cq_ex(3)). Default false. */
  timestamps?: boolean;
  /** Completions carry `wallclockNs`, the time of day. Default false. */
  wallclock?: boolean;
}

/** Event moderation: when an armed queue raises its event. */
export interface ModerationOptions {
  /** Raise the event after this many completions, */
  count: number;
  /** or after this many microseconds, whichever comes first. */
  periodUs: number;
}

/** Options of cq.next() and cq.completions(). */
export interface NextOptions {
  /** Aborts the wait; the promise rejects with the signal's reason. */
  signal?: AbortSignal;
  /**
   * Sleep until a solicited or failed completion arrives. Completions that arrived before it are then delivered
   * first. Completions that are already queued are delivered at once. Default false.
   */
  solicitedOnly?: boolean;
}

/** Options of cq.drain(). */
export interface DrainOptions {
  /** Return what has arrived after this many milliseconds of real time. Default: wait without a limit. */
  deadlineMs?: number;
  /** Aborts the wait; the promise rejects with the signal's reason, and the completions stay in the queue. */
  signal?: AbortSignal;
}

/** Options of next(), and the slots of the completions that it returns, for a wait that may put them back. */
interface WaitOptions extends NextOptions {
  taken?: Uint32Array[];
}

interface Waiter {
  solicitedOnly: boolean;
  taken: Uint32Array[] | undefined;
  resolve(completion: Completion): void;
  reject(reason: unknown): void;
  release(): void;
}

const INBOX_CAPACITY = 64;
/** After this many completions in a row, next() lets the event loop run once. */
const STREAK_LIMIT = 256;
/** On devices with a real clock, so it does after every so many that took longer than this together. */
const TIMED_COMPLETIONS = 16;
const STREAK_LIMIT_NS = 10e6;

/** States of the event request (ibv_req_notify_cq), ordered by how many completions each of them covers. */
const ARMED_NOT = 0;
const ARMED_SOLICITED = 1;
const ARMED_ANY = 2;

/**
 * A completion queue (ibv_create_cq(3)): poll it into a batch, or await completions one by one. It emits 'cqErr'
 * when it overflows, so give it as many entries as requests can be outstanding.
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
  private holds = 0;
  private streak = 0;
  /** When completions were last timed. */
  private timedNs = 0;
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

  /** Number of entries that the device granted. */
  get cqe(): number {
    return this.granted;
  }

  /**
   * ibv_resize_cq(3). Returns the number of entries that the device granted.
   * @throws BusyError when the queue contains more completions than `cqe`
   * @throws UnsupportedError
   */
  resize(cqe: number): number {
    this.granted = this.provider.resizeCq(this.handle, cqe);
    return this.granted;
  }

  /**
   * ibv_modify_cq(3): moderates events, so that each stands for more completions. Under a policy, events stay unmoderated.
   * @throws UnsupportedError
   */
  moderate(options: ModerationOptions): void {
    this.provider.modifyCq(this.handle, options.count, options.periodUs);
  }

  /**
   * ibv_poll_cq(3) into `wc`. Returns the number of completions, 0 when there are none. Never waits or allocates.
   * @throws InvalidHandleError
   */
  poll(wc: WcBatch, max = wc?.capacity): number {
    if (wc !== this.lastBatch || wc === null) {
      this.context.requireBatch('poll', wc, 'WcBatch');
      this.lastBatch = wc;
    }
    const handle = this.handle;
    const kept = this.inbox === null ? 0 : this.takeStored(wc, max);
    const polled =
      kept < max && this.claims + this.holds === 0
        ? this.provider.pollCq(handle, wc.ring, kept, max - kept)
        : 0;
    wc.length = kept + polled;
    return wc.length;
  }

  /**
   * The next completion, successful or failed: check its `status`. Waiting keeps the process alive. Concurrent
   * calls are served in order.
   * @throws InvalidHandleError when the queue is closed during the wait
   */
  next(options: NextOptions = {}): Promise<Completion> {
    return this.wait(options);
  }

  private wait(options: WaitOptions): Promise<Completion> {
    if (this.closed) return Promise.reject(this.closedError());
    if (options.signal?.aborted) return Promise.reject(options.signal.reason);
    if (this.waiters.size === 0 && this.streak < STREAK_LIMIT) {
      const completion = this.take(options);
      if (completion !== null) {
        this.streak++;
        if (this.streak % TIMED_COMPLETIONS === 0) this.time();
        return Promise.resolve(completion);
      }
    }
    return this.waitForNext(options);
  }

  /** Ends a streak of completions that each take long, such as those of large messages over `soft`. */
  private time(): void {
    const { provider, context } = this;
    if (provider.threads === 'one') return;
    const nowNs = provider.nowNs(context.handle);
    if (nowNs - this.timedNs > STREAK_LIMIT_NS) this.streak = STREAK_LIMIT;
    this.timedNs = nowNs;
  }

  /** `for await (const wc of cq)`. The loop ends when the queue is closed. */
  [Symbol.asyncIterator](): AsyncIterator<Completion, undefined> {
    return this.completions()[Symbol.asyncIterator]();
  }

  /** `for await (const wc of cq.completions({ solicitedOnly: true }))`: iterates with the options of next(). */
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

  /**
   * Resolves with the next `count` completions, or with fewer at the deadline. After an abort, the completions that
   * had arrived are in the queue again.
   */
  async drain(count: number, options: DrainOptions = {}): Promise<Completion[]> {
    const { deadlineMs } = options;
    options.signal?.throwIfAborted();
    const done: Completion[] = [];
    const taken: Uint32Array[] | undefined = options.signal === undefined ? undefined : [];
    const deadline = new AbortController();
    const timer = deadlineMs === undefined ? undefined : setTimeout(() => deadline.abort(), deadlineMs);
    const signal = AbortSignal.any([
      deadline.signal,
      ...(options.signal === undefined ? [] : [options.signal]),
    ]);
    try {
      while (done.length < count) done.push(await this.wait({ signal, taken }));
    } catch (error) {
      if (options.signal?.aborted) this.putBack(taken ?? []);
      else if (deadline.signal.aborted) return done;
      throw error;
    } finally {
      clearTimeout(timer);
    }
    return done;
  }

  /** @internal Gives all completions of a queue pair to this claim until the returned function is called. */
  claimQp(qp: number, claim: Claim): () => void {
    const inbox = this.openInbox();
    inbox.claimQp(qp, claim);
    return this.startClaim(() => inbox.unclaimQp(qp));
  }

  /** @internal As claimQp(), but gives this claim only the completion whose wr_id is `tag` (newTag()). */
  claimTag(tag: bigint, qp: number, claim: Claim): () => void {
    const inbox = this.openInbox();
    inbox.claimTag(tag, qp, claim);
    return this.startClaim(() => inbox.unclaimTag(tag));
  }

  /**
   * @internal Holds back the completions of a queue pair: neither poll() nor next() returns them until `release`, which
   * puts them behind those that have arrived, or `discard`.
   */
  holdQp(qp: number): { release(): void; discard(): void } {
    this.openInbox().hold(qp);
    this.holds++;
    let held = true;
    const end = (discard: boolean) => {
      if (!held) return;
      held = false;
      this.holds--;
      this.inbox?.unhold(qp, discard);
      if (!this.closed && this.waiters.size > 0) this.pump();
    };
    return { release: () => end(false), discard: () => end(true) };
  }

  /** @internal Hands the available completions to their claims. */
  distribute(): void {
    if (!this.closed && this.claims > 0) this.openInbox().distribute();
  }

  /** @internal */
  read(words: Uint32Array, at: number): Completion {
    const completion = readCompletion(words, at, this.context, this.stamps);
    if (completion.status !== IBV_WC_SUCCESS && completionError.hasSubscribers)
      completionError.publish({ completion });
    return completion;
  }

  /** @internal Rejects the claims on a queue pair that was closed or reset. */
  abandon(qp: number, error: () => Error): void {
    if (this.claims > 0) this.inbox?.abandon(qp, error);
  }

  /** @internal Called by the channel for an event of this queue. */
  onEvent(): void {
    this.armed = ARMED_NOT;
    this.streak = 0;
    if (!this.closed && (this.waiters.size > 0 || this.claims > 0)) this.pump();
  }

  private startClaim(unclaim: () => void): () => void {
    this.claims++;
    this.channel?.addWaiter();
    // The caller posts its request after claiming, so poll later.
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

  /** Without a channel nothing wakes claims, so they poll once per iteration of the event loop. */
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

  /** Rejects all waiters and claims after a failed poll or arm. */
  private fail(error: unknown): void {
    for (const waiter of [...this.waiters]) {
      waiter.release();
      waiter.reject(error);
    }
    this.inbox?.fail(error);
  }

  private waitForNext({ signal, solicitedOnly = false, taken }: WaitOptions): Promise<Completion> {
    const { channel } = this;
    if (channel === null) {
      const text = `${this.label} was created with channel: null, so it can only be polled; use poll()`;
      return Promise.reject(new InvalidArgumentError(text));
    }
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        waiter.release();
        reject(signal?.reason);
      };
      const waiter: Waiter = {
        solicitedOnly,
        taken,
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
   * Serves the waiters. An empty queue is armed and then polled once more, because a completion that arrived
   * between the poll and the arming raises no event.
   */
  private pump(): void {
    if (this.pumping) return;
    this.pumping = true;
    try {
      while (this.waiters.size > 0 || this.claims > 0) {
        if (this.waiters.size === 0) this.openInbox().distribute();
        const [first] = this.waiters;
        const completion = first === undefined ? null : this.take(first);
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

  /** The smallest event request that wakes every waiter. */
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

  private take(waiter: Pick<WaitOptions, 'taken'> | undefined): Completion | null {
    const inbox = this.openInbox();
    if (!inbox.take()) return null;
    waiter?.taken?.push(inbox.words.slice(inbox.at, inbox.at + SLOT_WORDS));
    return this.read(inbox.words, inbox.at);
  }

  /** The completions come next again, for waiters too. */
  private putBack(slots: Uint32Array[]): void {
    if (this.closed || slots.length === 0) return;
    this.openInbox().putBack(slots);
    this.pump();
  }

  /** First returns completions that next() fetched and no waiter took. */
  private takeStored(wc: WcBatch, max: number): number {
    const inbox = this.inbox as Inbox;
    const diverted = this.claims + this.holds > 0;
    if (!inbox.hasStored && !diverted) return 0;
    if (!(Number.isInteger(max) && max >= 0 && max <= wc.capacity)) {
      throw new InvalidArgumentError(`max ${max} does not fit into a batch of ${wc.capacity} completions`);
    }
    // Polls nothing, but throws for a closed batch: stored completions must not get lost in it.
    this.provider.pollCq(this.handle, wc.ring, 0, 0);
    let count = 0;
    while (count < max && (inbox.hasStored || diverted) && inbox.take()) {
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
