/**
 * Completion events: those of the device wake the shim; those of the application are delivered, or kept until it
 * listens.
 */
import type { Provider } from '../verbs/provider.ts';
import type { CompletionListener } from '../verbs/types.ts';
import { ARM_ANY, ARM_NONE, ARM_SOLICITED, type CqLedger } from './cq-ledger.ts';
import type { CompletionLimits } from './limits/completion-limits.ts';
import type { Tables } from './tables.ts';

/** A completion channel. */
interface ChannelState {
  listener: CompletionListener | null;
  /** Whether the shim listens to the device's channel, which it does from the first time that it has to. */
  watched: boolean;
  /** CQs with events that wait until the application listens. */
  pending: number[];
}

/** The functions of the shim that events use. */
export interface EventsHost {
  /** Polls a CQ for the shim: feeds waiting queue pairs, and keeps the application's completions. */
  pollForShim(cq: CqLedger): void;
  /** Feeds the queue pairs that may continue after a completion of this CQ. */
  feedAll(cq: CqLedger): void;
  /** An event of a CQ that the application does not know. */
  internalEvent(cq: number): void;
  /** Null: the policy never limits completions. */
  completionLimits(): CompletionLimits | null;
}

/** The largest count and period that libibverbs can pass on. */
const MAX_MODERATION = 0xffff;

export class Events {
  private readonly next: Provider;
  private readonly tables: Tables;
  private readonly host: EventsHost;
  private readonly channels = new Map<number, ChannelState>();

  constructor(next: Provider, tables: Tables, host: EventsHost) {
    this.next = next;
    this.tables = tables;
    this.host = host;
  }

  reqNotifyCq(handle: number, solicitedOnly: boolean): void {
    const cq = this.tables.cq(handle);
    if (cq === undefined) {
      this.next.reqNotifyCq(handle, solicitedOnly);
      return;
    }
    // Only completions that arrive from here on may raise an event.
    if (cq.isPolledByShim) this.host.pollForShim(cq);
    const { completions } = cq.owner;
    const isWithheld = completions !== null && cq.fifoCount > 0;
    if (cq.isEventDue && cq.appArmed === ARM_ANY && !isWithheld) cq.pendingEvents++;
    if (cq.isEventDue) cq.appArmed = ARM_NONE;
    cq.isEventDue = false;
    // A request for an event at any completion is not weakened by a later one for solicited completions.
    if (cq.appArmed !== ARM_ANY) cq.appArmed = solicitedOnly ? ARM_SOLICITED : ARM_ANY;
    const level = this.levelOf(cq);
    if (cq.realArmed !== ARM_ANY) cq.realArmed = level;
    this.next.reqNotifyCq(handle, level === ARM_SOLICITED);
    if (completions === null) return;
    // Kept completions raise an event when they become available, and the shim has to fetch others.
    this.listen(cq.channel);
    this.host.completionLimits()?.polled(cq, completions);
  }

  /**
   * The device does not moderate events: it would withhold those that the shim needs to issue held requests, and count
   * completions of pieces, which the application does not see.
   */
  modifyCq(handle: number, maxCount: number, periodUs: number): void {
    const isValid = isModeration(maxCount) && isModeration(periodUs);
    // The provider reports wrong arguments, and whether the device moderates events at all.
    if (this.tables.cq(handle) === undefined || !isValid) this.next.modifyCq(handle, maxCount, periodUs);
    else this.next.modifyCq(handle, 0, 0);
  }

  /** The level to arm the device with. While requests are held or awaited, every completion matters. */
  private levelOf(cq: CqLedger): number {
    if (cq.backlogged.length + cq.waiters.length + cq.awaitedCount > 0) return ARM_ANY;
    return cq.isEventDue ? ARM_NONE : cq.appArmed;
  }

  /** Arms a CQ. Returns false if it was armed already. */
  arm(cq: CqLedger, level: number): boolean {
    if (level === ARM_ANY) this.listen(cq.channel);
    if (level === ARM_NONE || cq.realArmed === ARM_ANY || cq.realArmed === level) return false;
    cq.realArmed = level;
    this.next.reqNotifyCq(cq.handle, level === ARM_SOLICITED);
    return true;
  }

  /** Polls a CQ for the shim, unless it was destroyed. */
  poll(cq: CqLedger): void {
    if (this.tables.cq(cq.handle) === cq) this.host.pollForShim(cq);
  }

  private channelState(channel: number): ChannelState {
    let state = this.channels.get(channel);
    if (state === undefined) {
      state = { listener: null, watched: false, pending: [] };
      this.channels.set(channel, state);
    }
    return state;
  }

  forget(channel: number): void {
    this.channels.delete(channel);
  }

  /** Listens to the device's events of this channel. */
  listen(channel: number): void {
    const state = this.channelState(channel);
    if (state.watched) return;
    state.watched = true;
    this.next.watchCompChannel(channel, (cq) => this.onEvent(cq));
  }

  /** The application starts to listen, or stops (null). */
  watch(channel: number, listener: CompletionListener | null): void {
    if (listener !== null && typeof listener !== 'function') {
      // The provider reports what is wrong with the listener.
      this.next.watchCompChannel(channel, listener);
      return;
    }
    const needed = this.tables.cqs.some(
      (cq) => cq !== undefined && cq.channel === channel && this.levelOf(cq) === ARM_ANY,
    );
    const stays = listener !== null || needed;
    this.next.watchCompChannel(channel, stays ? (cq) => this.onEvent(cq) : null);
    const state = this.channelState(channel);
    state.watched = stays;
    state.listener = listener;
    const cq = state.pending.map((handle) => this.tables.cq(handle)).find((one) => one !== undefined);
    if (listener !== null && cq !== undefined) this.defer(cq, () => this.deliver(state));
  }

  /** A completion event, for the application, the shim or both. */
  private onEvent(handle: number): void {
    const cq = this.tables.cq(handle);
    if (cq === undefined) {
      this.host.internalEvent(handle);
      return;
    }
    cq.realArmed = ARM_NONE;
    if (!cq.isPolledByShim && cq.waiters.length === 0) {
      // The shim has no requests on this CQ, so each event is the application's.
      if (cq.pendingEvents === 0) cq.isEventDue = cq.appArmed !== ARM_NONE;
    } else {
      this.host.pollForShim(cq);
      // A completion between that poll and the next arming would raise no event: arm, then poll again.
      const level = this.levelOf(cq);
      if (level !== ARM_NONE) {
        this.arm(cq, level);
        this.host.pollForShim(cq);
      }
    }
    this.raise(cq);
  }

  /**
   * Completions of `cq` were not the device's, which raises no event for them.
   * @param isNew whether they can be for the application
   */
  synthesised(cq: CqLedger, isNew = true): void {
    if (isNew && cq.appArmed === ARM_ANY) cq.isEventDue = true;
    if (cq.isEventDue || cq.waiters.length > 0) this.defer(cq, () => this.onSynthesised(cq));
  }

  private onSynthesised(cq: CqLedger): void {
    if (this.tables.cq(cq.handle) !== cq) return;
    this.host.feedAll(cq);
    this.raise(cq);
  }

  /** Runs on a fresh stack, not inside the application's call. */
  private defer(cq: CqLedger, action: () => void): void {
    void this.next.sleep(cq.context, 0).then(action);
  }

  /** Kept completions of `cq` may be polled now, which the rate of completions did not permit before. */
  available(cq: CqLedger): void {
    if (cq.fifoCount > 0 && cq.appArmed !== ARM_NONE) cq.isEventDue = true;
    if (cq.fifoCount > 0) this.next.completionsKept?.(cq.handle);
    this.raise(cq);
  }

  /** Whether the event that is due must wait until one of the completions may be polled. */
  private isWithheld(cq: CqLedger): boolean {
    const { completions } = cq.owner;
    if (completions === null || !cq.isEventDue) return false;
    if (this.host.completionLimits()?.withholds(cq, completions) !== true) return false;
    // Until then, the shim goes on fetching completions.
    this.arm(cq, ARM_ANY);
    return true;
  }

  /** Must be called last, because the application's listener may do anything, and may throw. */
  private raise(cq: CqLedger): void {
    let events = cq.pendingEvents;
    cq.pendingEvents = 0;
    if (cq.isEventDue && !this.isWithheld(cq)) {
      cq.isEventDue = false;
      cq.appArmed = ARM_NONE;
      events++;
    }
    if (events === 0 || cq.appChannel === 0) return;
    const state = this.channelState(cq.appChannel);
    for (let i = 0; i < events; i++) state.pending.push(cq.handle);
    this.deliver(state);
  }

  private deliver(state: ChannelState): void {
    while (state.listener !== null) {
      const handle = state.pending.shift();
      if (handle === undefined) return;
      const cq = this.tables.cq(handle);
      if (cq === undefined) continue;
      try {
        state.listener(handle);
      } catch (error) {
        if (state.pending.length > 0) this.defer(cq, () => this.deliver(state));
        throw error;
      }
    }
  }
}

function isModeration(value: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= MAX_MODERATION;
}
