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

/** The coordinator, as a shim sees it: in this process, or a client of one elsewhere. */
export interface CoordinatorPort {
  /** A policy tells something of a context. May be called in any event: must not throw or wait. */
  report(context: ContextView, kind: number, value: number): void;
  /** `listener` hears every grant for this context, from now until the function returned is called. */
  subscribe(context: ContextView, listener: (grant: Grant) => void): () => void;
}
