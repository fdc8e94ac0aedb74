/**
 * Asynchronous events. The shim listens for those that fail a queue pair: a responder's errors have no completion, and
 * held requests would wait for ever. All events are passed on to the application when it listens, but for those of the
 * policy's own queue pairs.
 */
import {
  IBV_EVENT_COMM_EST,
  IBV_EVENT_CQ_ERR,
  IBV_EVENT_PATH_MIG,
  IBV_EVENT_PATH_MIG_ERR,
  IBV_EVENT_QP_ACCESS_ERR,
  IBV_EVENT_QP_FATAL,
  IBV_EVENT_QP_LAST_WQE_REACHED,
  IBV_EVENT_QP_REQ_ERR,
  IBV_EVENT_SQ_DRAINED,
} from '../verbs/constants.ts';
import type { Provider } from '../verbs/provider.ts';
import type { AsyncListener } from '../verbs/types.ts';

interface ContextEvents {
  listener: AsyncListener | null;
  /** Whether the shim listens, which it does from the first time that it has to. */
  watched: boolean;
  /** Pairs of event and element that wait until the application listens. */
  pending: [event: number, element: number][];
}

/** Events with which a queue pair fails. */
const FAILURES = new Set([IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR]);

/** Events whose element is a queue pair or a CQ. */
const OF_QUEUES = new Set([
  ...FAILURES,
  IBV_EVENT_CQ_ERR,
  IBV_EVENT_COMM_EST,
  IBV_EVENT_SQ_DRAINED,
  IBV_EVENT_PATH_MIG,
  IBV_EVENT_PATH_MIG_ERR,
  IBV_EVENT_QP_LAST_WQE_REACHED,
]);

export class DeviceEvents {
  private readonly next: Provider;
  private readonly failed: (qp: number) => void;
  private readonly isInternal: (element: number, event: number, isFailure: boolean) => boolean;
  private readonly contexts = new Map<number, ContextEvents>();

  /** @param isInternal whether an event of a queue pair or CQ, which may have failed, is not the application's */
  constructor(
    next: Provider,
    failed: (qp: number) => void,
    isInternal: (element: number, event: number, isFailure: boolean) => boolean,
  ) {
    this.next = next;
    this.failed = failed;
    this.isInternal = isInternal;
  }

  /** Listens for failures of this context's queue pairs. */
  ensureListening(context: number): void {
    const state = this.stateOf(context);
    if (state.watched) return;
    state.watched = true;
    this.listen(context, state);
  }

  verbs(): Pick<Provider, 'watchAsyncEvents' | 'destroySrq'> {
    return {
      watchAsyncEvents: (context, listener) => this.watch(context, listener),
      destroySrq: (srq) => {
        this.next.destroySrq(srq);
        this.drop(srq);
      },
    };
  }

  private watch(context: number, listener: AsyncListener | null): void {
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

  /** The element was destroyed: its events that wait for a listener are dropped, as on a device. */
  drop(element: number): void {
    for (const state of this.contexts.values()) {
      if (state.pending.length > 0) state.pending = state.pending.filter(([, of]) => of !== element);
    }
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
      const isFailure = FAILURES.has(event);
      if (OF_QUEUES.has(event) && this.isInternal(element, event, isFailure)) return;
      if (isFailure) this.failed(element);
      state.pending.push([event, element]);
      this.deliver(context, state);
    });
  }

  /** An event of the application's that the device did not raise at this time. */
  raise(context: number, event: number, element: number): void {
    const state = this.stateOf(context);
    state.pending.push([event, element]);
    this.deliver(context, state);
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
