/**
 * The interface between a shim and the coordinator, which knows all tenants of a device. What a policy reports and is
 * granted are numbers in a page that both share (src/coordinator/ruler.ts); only changes on which it must act are events.
 */
import type { Labels } from '../verbs/labels.ts';
import type { ContextView } from './views.ts';

/** The counts of a context since it was opened, for monitoring. */
export interface Usage {
  /** Requests that the application has posted, and bytes of their messages. */
  readonly requests: number;
  readonly bytes: number;
  /** Requests that are held now. */
  readonly held: number;
  /** Queue pairs that exist now. */
  readonly qps: number;
  /**
   * Smoothed time from post to the poll that finds the completion, of requests sampled from time to time; 0 if there is
   * none yet.
   */
  readonly latencyNs: number;
  /** Sums that only grow, in the order of `SUM_NAMES` (counters.ts). The next call reuses the array. */
  readonly sums: Float64Array;
}

/** The coordinator, as a shim sees it: in this process, or a client of one elsewhere. */
export interface CoordinatorPort {
  /**
   * Calls `granted` when grants of this context have changed on which it must act at once, its limits included, until
   * the returned function is called. `usage` is called from time to time for monitoring; null: another shim around this
   * one reports instead.
   */
  subscribe(context: ContextView, granted: () => void, usage?: () => Usage | null): () => void;
  /** Labels from the coordinator, which take precedence over the program's; the same object until they change. */
  labelsOf?(context: ContextView): Partial<Labels>;
  /** The labels of a context have changed. */
  relabel?(context: ContextView): void;
  /**
   * Weights of groups of the context's tenant from the coordinator, which knows what all processes of the tenant have set;
   * the same object until they change. What is absent is as the contexts of this process have set it.
   */
  groupsOf?(context: ContextView): ReadonlyMap<string, number>;
  /** The program has set the weight of a group of this context; null: the context has given it up. */
  setGroup?(context: ContextView, name: string, weight: number | null): void;
  /** A context has this many queue pairs now. */
  countQps?(context: ContextView, qps: number): void;
  /**
   * The number of queue pairs that a context may have now; Infinity: no limit.
   * @param qps the number that it is about to have
   */
  maxQpsOf?(context: ContextView, qps: number): number;
  /**
   * Requests per second that a context may post now, over all its queue pairs; Infinity: no limit. Called at each post
   * while there is a limit.
   */
  maxRequestsPerSOf?(context: ContextView): number;
  /** Requests per second that all contexts of the context's tenant may post together; Infinity: no limit. */
  tenantRequestsPerSOf?(context: ContextView): number;
  /** The tenant to which the coordinator has assigned a context; absent: the program's own name of it. */
  tenantOf?(context: ContextView): string;
  /** Requests have taken tokens of this limit; a negative number returns them. */
  payRequests?(context: ContextView, requests: number): void;
  /** Whether the coordinator is elsewhere. It then requires `awaitGrants`, and `pulse` from time to time. */
  isRemote?(context: ContextView): boolean;
  /**
   * Waits until the coordinator has granted something to the context or its tenant, at most for a bounded time.
   * @throws NoResourcesError if the coordinator has no place for the context
   */
  awaitGrants?(context: ContextView): void;
  /** Called between calls of a program whose event loop may never run: exchanges news with the coordinator. */
  pulse?(context: ContextView): void;
}
