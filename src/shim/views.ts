/** A policy's views of contexts and queue pairs. */
import type { Labels } from '../verbs/labels.ts';
import type { NicFacts } from '../verbs/nic.ts';

/** An open context. `index` is dense, so a policy can use it for typed columns. */
export interface ContextView {
  readonly index: number;
  readonly handle: number;
  readonly device: string;
  /** The tenant that openDevice was given; '' without one. */
  readonly tenant: string;
  /** Known facts about the device's NIC; null if there are none. */
  readonly nic: NicFacts | null;
  /** Its labels now; a new object after each change. */
  readonly labels: Labels;
  /** Whether another shim around this one reports what the context sends to the coordinator. */
  readonly isInner?: boolean;
}

/** A queue pair. `index` is dense, so a policy can use it for typed columns. */
export interface QpView {
  readonly index: number;
  readonly handle: number;
  readonly context: ContextView;
  /** IBV_QPT_* */
  readonly type: number;
  /** Whether its requests are held until an ENABLE releases them. */
  readonly managed: boolean;
  /** Whether every request is signaled. */
  readonly sqSigAll: boolean;
  /** The application's max_send_wr. */
  readonly appDepth: number;
  /** IBV_QPS_*, as the application last set it. */
  readonly state: number;
  /**
   * Whether the queue pair has failed: the shim then flushes held requests, and does not call `feed` until the queue
   * pair is usable again.
   */
  readonly broken: boolean;
  /** Handle of the CQ of its sends. */
  readonly sendCqHandle: number;
  /** GIDs of its own port and of the peer's, in the notation of gidToString; '' if not connected or without GIDs. */
  readonly sgid: string;
  readonly dgid: string;
  /** The most READs and atomics that it may have outstanding, as last set; 1 until then. */
  readonly maxRdAtomic: number;
  /** The rate that the application has set, in units of 1000 bit/s, if the policy `limitsRates`; 0: none. */
  readonly rateLimitKbps: number;
  /** Its labels now, including those of its context; a new object after each change. */
  readonly labels: Labels;
  /** The shim's counts so far, by the columns of counters.ts. */
  readonly counts: Float64Array;
}
