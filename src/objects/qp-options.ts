/** What a queue pair is made and moved on with. */
import type { QpCap } from '../verbs/index.ts';
import type { Access } from './access.ts';
import type { CompletionQueue } from './completion-queue.ts';
import type { SharedReceiveQueue } from './shared-receive-queue.ts';

/** IBV_QPT_*. XRC_SEND and XRC_RECV are the halves of an extended reliable connection. */
export type QpType = 'RC' | 'UC' | 'UD' | 'XRC_SEND' | 'XRC_RECV';
/** IBV_QPS_* */
export type QpState = 'RESET' | 'INIT' | 'RTR' | 'RTS' | 'SQD' | 'SQE' | 'ERR';

/** ibv_qp_init_attr_ex. */
export interface QueuePairOptions {
  sendCq: CompletionQueue;
  /** Default: sendCq. */
  recvCq?: CompletionQueue;
  /** Default 'RC'. 'XRC_RECV' is made by XrcDomain.createQp(). */
  type?: Exclude<QpType, 'XRC_RECV'>;
  /** Default: 128 requests each way, 2 elements each, no inline data. */
  cap?: Partial<QpCap>;
  /** Its receives come from there; it has none of its own. */
  srq?: SharedReceiveQueue;
  /** Posts go through ibv_wr_*(3) (ibv_create_qp_ex(3)); it behaves the same, faster on some devices. Default false. */
  extended?: boolean;
  /** Every send request completes visibly. Default false. */
  sqSigAll?: boolean;
  /** ISO: requests are fetched only as ENABLE requests on other queue pairs allow. Default false. */
  managed?: boolean;
}

/** What one end must know of the other to connect. */
export interface Endpoint {
  qpNum: number;
  /** First packet sequence number of its send queue. */
  psn: number;
  /** In IPv6 notation. */
  gid: string;
  /** 0 on RoCE. */
  lid: number;
  /** IBV_MTU_*: the largest that its port takes. */
  mtu?: number;
  /** Datagrams: what those who send to it must name. */
  qkey?: number;
  /** What its shim has to tell the peer's shim, in base64; absent without a shim. Pass it on as it is. */
  shim?: string;
}

/** Which way to speak to a peer. */
export interface PathOptions {
  /** Default 1. */
  portNum?: number;
  /** Index of the local GID; default: the preferred one (Context.chooseGid). */
  gidIndex?: number;
}

/** What toInit() sets. */
export interface InitOptions extends Pick<PathOptions, 'portNum'> {
  /** What peers may do through this queue pair. Default: read, write and atomics, as far as keys allow. */
  access?: Access;
  /** Default 0. */
  pkeyIndex?: number;
  /** Datagrams: what senders must name. Default 0x11111111, as ibv_ud_pingpong has it. */
  qkey?: number;
}

/** What toRtr() sets beside the peer. */
export interface RtrOptions extends PathOptions {
  /** IBV_MTU_*; default: the smaller of both ports' active MTUs. */
  mtu?: number;
  /** READs and atomics of the peer that may be outstanding. Default: what the device takes, at most 16. */
  maxDestRdAtomic?: number;
  /** Code of the RNR NAK delay; default 12 (0.64 ms). */
  minRnrTimer?: number;
  /** Default 64. */
  hopLimit?: number;
  /** Traffic class of the IP or global routing header. Default 0. */
  trafficClass?: number;
  /** Service level; default 0. */
  sl?: number;
}

/** What toRts() sets. */
export interface RtsOptions {
  /** Own READs and atomics that may be outstanding. Default: what the device takes, at most 16. */
  maxRdAtomic?: number;
  /** Code of the acknowledgement timeout: 4.096 us * 2^timeout. Default 14 (67 ms). */
  timeout?: number;
  /** Default 6; some devices take 7 for "for ever". */
  retryCnt?: number;
  /** Default 7: for ever. */
  rnrRetry?: number;
}

/** What connectTo() takes: all that its steps take. */
export interface ConnectToOptions extends InitOptions, RtrOptions, RtsOptions {}

/** What toSqd() takes. */
export interface SqdOptions {
  /** Wait until what had begun is done. Default true. */
  notify?: boolean;
}

/** What of qp.drain() may be changed. */
export interface QpDrainOptions {
  /**
   * With a shared receive queue: how long to wait, in milliseconds of real time, for the device to say that the
   * last receive has been taken (LAST_WQE_REACHED). Some devices never say it (soft-RoCE of Linux 6.1).
   * Default 1000.
   */
  lastWqeMs?: number;
}
