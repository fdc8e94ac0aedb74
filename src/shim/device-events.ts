/**
 * Asynchronous events. The shim listens for those that fail a queue pair: a responder's errors have no completion, and
 * held requests would wait for ever. All events are passed on to the application when it listens.
 */
import { IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR } from '../verbs/constants.ts';
import type { Provider } from '../verbs/provider.ts';
import type { AsyncListener } from '../verbs/types.ts';

interface ContextEvents {
  listener: AsyncListener | null;
  /** Whether the shim listens, which it does from the first time that it has to. */
  watched: boolean;
  /** Pairs of event and element that wait until the application listens. */
  pending: [event: number, element: number][];
}

const FAILURES = new Set([IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR]);

export class DeviceEvents {
  private readonly next: Provider;
  private readonly failed: (qp: number) => void;
  private readonly contexts = new Map<number, ContextEvents>();

  constructor(next: Provider, failed: (qp: number) => void) {
    this.next = next;
    this.failed = failed;
  }

  /** Listens for failures of this context's queue pairs. */
  ensureListening(context: number): void {
    const state = this.stateOf(context);
    if (state.watched) return;
    state.watched = true;
    this.listen(context, state);
  }

  watch(context: number, listener: AsyncListener | null): void {
    const state = this.contexts.get(context);
    if (state?.watched !== true || (listener !== null && typeof listener !== 'function')) {
      this.next.watchAsyncEvents(context, listener);
      this.stateOf(context).listener = listener;
      return;
    }
    state.listener = listener;
    if (listener !== null && state.pending.length > 0) {
      void this.next.sleep(context, 0).then(() => this.deliver(context, state));
    }
  }

  forget(context: number): void {
    this.contexts.delete(context);
  }

  private stateOf(context: number): ContextEvents {
    let state = this.contexts.get(context);
    if (state === undefined) {
      state = { listener: null, watched: false, pending: [] };
      this.contexts.set(context, state);
    }
    return state;
  }

  private listen(context: number, state: ContextEvents): void {
    this.next.watchAsyncEvents(context, (event, element) => {
      if (FAILURES.has(event)) this.failed(element);
      state.pending.push([event, element]);
      this.deliver(context, state);
    });
  }

  private deliver(context: number, state: ContextEvents): void {
    while (state.listener !== null) {
      const next = state.pending.shift();
      if (next === undefined) return;
      try {
        state.listener(...next);
      } catch (error) {
        if (state.pending.length > 0)
          void this.next.sleep(context, 0).then(() => this.deliver(context, state));
        throw error;
      }
    }
  }
}
