/**
 * The interface between a policy and the coordinator, which knows all tenants of a device. It carries numbers only, so
 * that a page of shared memory can hold them; their kinds are agreed between a policy and its coordinator.
 */
import type { ContextView } from './views.ts';

/** What the coordinator allows or requests. */
export interface Grant {
  readonly kind: number;
  /** What it applies to: the index of a queue pair, a tenant's number; -1: the whole context. */
  readonly target: number;
  readonly value: number;
}

/** What a context has done since it was opened, for monitoring. */
export interface Usage {
  /** Requests that the application has posted, and bytes of their messages. */
  readonly requests: number;
  readonly bytes: number;
  /** Requests that are held now. */
  readonly held: number;
  /** Queue pairs that exist now. */
  readonly qps: number;
  /** Smoothed time from post to the poll that finds the completion, of requests sampled now and then; 0: none yet. */
  readonly latencyNs: number;
}

/** What the coordinator may ask of a context, and tell it. */
export interface ContextWatch {
  /** Called periodically for monitoring; null: another shim around this one reports instead. */
  usage(): Usage | null;
  /** The limits have changed. */
  limited(): void;
}

/** The coordinator, as a shim sees it: in this process, or a client of one elsewhere. */
export interface CoordinatorPort {
  /** A policy reports a value of a context. May be called in any event: must not throw or wait. */
  report(context: ContextView, kind: number, value: number): void;
  /** Calls `listener` with every grant for this context, until the returned function is called. */
  subscribe(context: ContextView, listener: (grant: Grant) => void, watch?: ContextWatch): () => void;
  /** A context has this many queue pairs now. */
  countQps?(context: ContextView, qps: number): void;
  /** The number of queue pairs that a context may have now; Infinity: no limit. */
  maxQpsOf?(context: ContextView): number;
  /**
   * Requests per second that a context may post now, over all its queue pairs; Infinity: no limit. Called at each post
   * while there is a limit.
   */
  maxRequestsPerSOf?(context: ContextView): number;
}
