/** Options for the creation and the state transitions of queue pairs, and labels. */
import type { QpCap, TrafficName } from '../verbs/index.ts';
import type { Access } from './access.ts';
import type { CompletionQueue } from './completion-queue.ts';
import type { SharedReceiveQueue } from './shared-receive-queue.ts';

/** Type of a queue pair (IBV_QPT_*). XRC_SEND and XRC_RECV are the halves of an extended reliable connection. */
export type QpType = 'RC' | 'UC' | 'UD' | 'XRC_SEND' | 'XRC_RECV';
/** State of a queue pair (IBV_QPS_*). */
export type QpState = 'RESET' | 'INIT' | 'RTR' | 'RTS' | 'SQD' | 'SQE' | 'ERR';

/** Labels of a queue pair, for policies (docs/guide.md, *Labels*). */
export interface QueuePairLabels {
  /** Weight among the queue pairs of its tenant, from 1e-6 to 1e6. */
  qpWeight?: number;
  /** Name of its group, of at most 64 printable characters; '': none. */
  group?: string;
  /** Kind of traffic: single requests whose answers are awaited, many small requests, or large messages. */
  traffic?: TrafficName;
}

/** Labels of a context. Its queue pairs have those that they do not set themselves. */
export interface ContextLabels extends QueuePairLabels {
  /** Weight of its tenant among the tenants of the device, from 1e-6 to 1e6. */
  weight?: number;
}

/** Options of pd.createQp() (ibv_qp_init_attr_ex). */
export interface QueuePairOptions {
  sendCq: CompletionQueue;
  /** Default: sendCq. */
  recvCq?: CompletionQueue;
  /** Default 'RC'. XrcDomain.createQp() creates 'XRC_RECV'. */
  type?: Exclude<QpType, 'XRC_RECV'>;
  /** Default: 128 requests in each direction with 2 elements each, and no inline data. */
  cap?: Partial<QpCap>;
  /** Shared queue that supplies its receives; the queue pair then has no separate receive queue. */
  srq?: SharedReceiveQueue;
  /** Post through ibv_wr_*(3) (ibv_create_qp_ex(3)): same behaviour, faster on some devices. Default false. */
  extended?: boolean;
  /** Every send request generates a completion. Default false. */
  sqSigAll?: boolean;
  /** Extension of isoverbs: the device fetches a request only after an ENABLE of another queue pair. Default false. */
  managed?: boolean;
  /** What policies should know of it. Default: the labels of its context. */
  labels?: QueuePairLabels;
}

/** The facts that a peer requires to connect to a queue pair. */
export interface Endpoint {
  qpNum: number;
  /** First packet sequence number of its send queue. */
  psn: number;
  /** GID in IPv6 notation. */
  gid: string;
  /** Local identifier of the port; 0 on RoCE. */
  lid: number;
  /** Largest MTU of its port (IBV_MTU_*). */
  mtu?: number;
  /** Datagrams: the Q_Key that senders must name. */
  qkey?: number;
  /** Message from this end's shim to the peer's, in base64; absent without a shim. Pass it on unchanged. */
  shim?: string;
}

/** Local port and GID of the path to a peer. */
export interface PathOptions {
  /** Default 1. */
  portNum?: number;
  /** Index of the local GID; default: the preferred one (Context.chooseGid). */
  gidIndex?: number;
}

/** Options of toInit(). */
export interface InitOptions extends Pick<PathOptions, 'portNum'> {
  /** Rights of the peer on this queue pair. Default: read, write and atomics, within the rights of each key. */
  access?: Access;
  /** Default 0. */
  pkeyIndex?: number;
  /** Datagrams: Q_Key that senders must name. Default 0x11111111, as in ibv_ud_pingpong. */
  qkey?: number;
}

/** Options of toRtr(). */
export interface RtrOptions extends PathOptions {
  /** IBV_MTU_*; default: the smaller of both ports' active MTUs. */
  mtu?: number;
  /** READs and atomics of the peer that may be outstanding. Default: the limit of the device, at most 16. */
  maxDestRdAtomic?: number;
  /** Code of the RNR NAK delay. Default 12 (0.64 ms). */
  minRnrTimer?: number;
  /** Default 64. */
  hopLimit?: number;
  /** Traffic class of the IP or global routing header. Default 0. */
  trafficClass?: number;
  /** Service level. Default 0. */
  sl?: number;
}

/** Options of toRts(). */
export interface RtsOptions {
  /** Own READs and atomics that may be outstanding. Default: the limit of the device, at most 16. */
  maxRdAtomic?: number;
  /** Code of the acknowledgement timeout: 4.096 us * 2^timeout. Default 14 (67 ms). */
  timeout?: number;
  /** Transport retries. Default 6; some devices retry without a limit for 7. */
  retryCnt?: number;
  /** Retries after RNR NAKs. Default 7: no limit. */
  rnrRetry?: number;
}

/** Options of connectTo(): those of toInit(), toRtr() and toRts(). */
export interface ConnectToOptions extends InitOptions, RtrOptions, RtsOptions {}

/** Options of toSqd(). */
export interface SqdOptions {
  /** Wait until the requests that had begun are done. Default true. */
  notify?: boolean;
}

/** Options of qp.drain(). */
export interface QpDrainOptions {
  /**
   * With a shared receive queue: time limit, in milliseconds of real time, for the event LAST_WQE_REACHED, which
   * reports that the queue pair has taken its last receive. Soft-RoCE of Linux 6.1 never reports it. Default 1000.
   */
  lastWqeMs?: number;
  /**
   * Aborts the wait; the promise rejects with the signal's reason. The queue pair goes on draining, and the next
   * drain() joins in.
   */
  signal?: AbortSignal;
}
