/** Completion events: the device's wake the shim, the application's are told or kept. */
import type { Provider } from '../verbs/provider.ts';
import type { CompletionListener } from '../verbs/types.ts';
import { ARM_ANY, ARM_NONE, ARM_SOLICITED, type CqLedger } from './cq-ledger.ts';
import type { Tables } from './tables.ts';

/** A completion channel: the device's events go through the shim, the application's are told or kept. */
interface ChannelState {
  listener: CompletionListener | null;
  /** Whether the shim listens to the device's channel: from the first time that it needs to. */
  watched: boolean;
  /** CQs with events that nobody has listened for yet. */
  pending: number[];
}

/** What events need of the rest of the shim. */
export interface EventsHost {
  /** Polls a CQ for the shim: feeds what waits, keeps what is the application's. */
  pollForShim(cq: CqLedger): void;
  /** Feeds whoever may go on after a completion of this CQ. */
  feedAll(cq: CqLedger): void;
  /** An event of a CQ that the application does not know. */
  internalEvent(cq: number): void;
}

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
    // Only what arrives from here on is worth an event.
    if (cq.translatedQps > 0) this.host.pollForShim(cq);
    if (cq.isEventDue && cq.appArmed === ARM_ANY) cq.pendingEvents++;
    if (cq.isEventDue) cq.appArmed = ARM_NONE;
    cq.isEventDue = false;
    // Asking for any completion is not taken back by asking for less.
    if (cq.appArmed !== ARM_ANY) cq.appArmed = solicitedOnly ? ARM_SOLICITED : ARM_ANY;
    const level = this.levelOf(cq);
    if (cq.realArmed !== ARM_ANY) cq.realArmed = level;
    this.next.reqNotifyCq(handle, level === ARM_SOLICITED);
  }

  /** What the device is to be asked for: whoever waits for held requests wants to hear of everything. */
  private levelOf(cq: CqLedger): number {
    if (cq.backlogged.length + cq.waiters.length + cq.awaitedCount > 0) return ARM_ANY;
    return cq.isEventDue ? ARM_NONE : cq.appArmed;
  }

  /** False: it was armed before. */
  arm(cq: CqLedger, level: number): boolean {
    if (level === ARM_ANY) this.listen(cq.channel);
    if (level === ARM_NONE || cq.realArmed === ARM_ANY || cq.realArmed === level) return false;
    cq.realArmed = level;
    this.next.reqNotifyCq(cq.handle, level === ARM_SOLICITED);
    return true;
  }

  /** Polls a CQ for the shim. */
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

  listen(channel: number): void {
    const state = this.channelState(channel);
    if (state.watched) return;
    state.watched = true;
    this.next.watchCompChannel(channel, (cq) => this.onEvent(cq));
  }

  watch(channel: number, listener: CompletionListener | null): void {
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

  /** A completion event: the application's, the shim's, or both. */
  private onEvent(handle: number): void {
    const cq = this.tables.cq(handle);
    if (cq === undefined) {
      this.host.internalEvent(handle);
      return;
    }
    cq.realArmed = ARM_NONE;
    if (cq.translatedQps === 0 && cq.waiters.length === 0) {
      // Nothing of the shim's: each event is the application's own.
      if (cq.pendingEvents === 0) cq.isEventDue = cq.appArmed !== ARM_NONE;
    } else {
      this.host.pollForShim(cq);
      // What arrives between that poll and the next arming would wake nobody: arm, then look again.
      const level = this.levelOf(cq);
      if (level !== ARM_NONE) {
        this.arm(cq, level);
        this.host.pollForShim(cq);
      }
    }
    this.raise(cq);
  }

  /** A policy completed a request itself: no event of the device tells of it. */
  synthesised(cq: CqLedger): void {
    if (cq.appArmed === ARM_ANY) cq.isEventDue = true;
    if (cq.isEventDue || cq.waiters.length > 0) this.defer(cq, () => this.onSynthesised(cq));
  }

  private onSynthesised(cq: CqLedger): void {
    if (this.tables.cq(cq.handle) !== cq) return;
    this.host.feedAll(cq);
    this.raise(cq);
  }

  /** On a stack of its own, not inside the application's call. */
  private defer(cq: CqLedger, action: () => void): void {
    void this.next.sleep(cq.context, 0).then(action);
  }

  /** Comes last wherever it is called: the application may do anything in its listener, and throw. */
  private raise(cq: CqLedger): void {
    let events = cq.pendingEvents;
    cq.pendingEvents = 0;
    if (cq.isEventDue) {
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
