/** What a policy may know of contexts and queue pairs. */
import type { NicFacts } from '../verbs/nic.ts';

/** An open context. `index` is dense: it fits typed columns of the policy's own. */
export interface ContextView {
  readonly index: number;
  readonly handle: number;
  readonly device: string;
  /** The tenant that openDevice was given; '' without one. */
  readonly tenant: string;
  /** What the device knows of its NIC; null: nothing. */
  readonly nic: NicFacts | null;
}

/** A queue pair. `index` is dense: it fits typed columns of the policy's own. */
export interface QpView {
  readonly index: number;
  readonly handle: number;
  readonly context: ContextView;
  /** IBV_QPT_* */
  readonly type: number;
  /** Its requests are held until an ENABLE releases them. */
  readonly managed: boolean;
  /** Every request is signaled. */
  readonly sqSigAll: boolean;
  /** The application's max_send_wr. */
  readonly appDepth: number;
  /** IBV_QPS_*, as the application last set it. */
  readonly state: number;
  /** The queue pair has failed: the shim flushes what is held, and does not call `feed` until it is usable again. */
  readonly broken: boolean;
  /** Handle of the CQ of its sends. */
  readonly sendCqHandle: number;
  /** GIDs of its own port and of the peer's, in the notation of gidToString; '': not connected, or without GIDs. */
  readonly sgid: string;
  readonly dgid: string;
  /** What the shim has counted so far, by the columns of counters.ts. */
  readonly counts: Float64Array;
}
