/**
 * Where a policy meets the coordinator, who knows all tenants of a device. Numbers only, so that a page of
 * shared memory can carry them; what the kinds mean is between a policy and its coordinator.
 */
import type { ContextView } from './policy.ts';

/** What the coordinator allows or wants. */
export interface Grant {
  readonly kind: number;
  /** What it is about: the index of a queue pair, a tenant's number; -1: all of the context. */
  readonly target: number;
  readonly value: number;
}

/** What a context has done since it was opened, and does: for those who look on. */
export interface Usage {
  /** Requests of the application that were posted, and bytes of their messages. */
  readonly requests: number;
  readonly bytes: number;
  /** Requests that are held just now. */
  readonly held: number;
  /** Queue pairs that it has. */
  readonly qps: number;
  /** From post to the poll that finds the completion: smoothed over requests picked now and then; 0: none yet. */
  readonly latencyNs: number;
}

/** What a shim tells of a context, and hears. */
export interface ContextWatch {
  /** Asked now and then by who shows it; null: another shim around this one tells. */
  usage(): Usage | null;
  /** There are other limits now. */
  limited(): void;
}

/** The coordinator, as a shim sees it: in this process, or a client of one elsewhere. */
export interface CoordinatorPort {
  /** A policy tells something of a context. May be called in any event: must not throw or wait. */
  report(context: ContextView, kind: number, value: number): void;
  /** `listener` hears every grant for this context, from now until the function returned is called. */
  subscribe(context: ContextView, listener: (grant: Grant) => void, watch?: ContextWatch): () => void;
  /** A context has so many queue pairs now. */
  countQps?(context: ContextView, qps: number): void;
  /** What a context may as of now; Infinity: as much as it likes. Asked for at each post while there is a limit. */
  maxQpsOf?(context: ContextView): number;
  /** The same of requests in a second, of all queue pairs together. */
  maxRequestsPerSOf?(context: ContextView): number;
}
