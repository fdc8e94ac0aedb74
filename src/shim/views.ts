/** What a policy may know of contexts and queue pairs. */
import type { NicFacts } from '../verbs/nic.ts';

/** An open context: what a program opened a device for. `index` is dense. */
export interface ContextView {
  readonly index: number;
  readonly handle: number;
  readonly device: string;
  /** Who it works for, as openDevice was told; '' when it was not. */
  readonly tenant: string;
  /** What its device says of the NIC; null: nothing. */
  readonly nic: NicFacts | null;
}

/** What a policy may know of a queue pair. `index` is dense: good for typed columns of the policy's own. */
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
  /** An error was seen: the shim flushes what is held, and asks the policy for nothing until it is whole again. */
  readonly broken: boolean;
  /** Handle of the CQ of its sends. */
  readonly sendCqHandle: number;
  /** GIDs of its own port and of the peer's, in the notation of gidToString; '': not connected, or without GIDs. */
  readonly sgid: string;
  readonly dgid: string;
  /** counters.ts: what it has seen so far, by column. */
  readonly counts: Float64Array;
}
