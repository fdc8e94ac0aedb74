/**
 * Arguments and results of verbs: attributes, and descriptions of objects. Times are in nanoseconds (float64), sizes in
 * bytes. Addresses are numbers: a provider returns only addresses below 2^53.
 */

import type { Labels, QpLabels } from './labels.ts';

/** An entry of `getDeviceList`: what is known about a device before it is opened. */
export interface DeviceInfo {
  name: string;
  /** The provider that has it: 'sim' or 'rdma-core'. */
  provider: string;
  /** Sixteen hexadecimal digits in groups of four, as ibv_devinfo prints it. */
  guid: string;
  transport: string;
}

/** ibv_query_device(3). */
export interface DeviceAttr {
  fwVer: string;
  nodeGuid: string;
  vendorId: number;
  vendorPartId: number;
  hwVer: number;
  maxMrSizeBytes: number;
  maxQp: number;
  maxQpWr: number;
  maxSge: number;
  maxSgeRd: number;
  maxCq: number;
  maxCqe: number;
  maxMr: number;
  maxPd: number;
  maxQpRdAtom: number;
  maxQpInitRdAtom: number;
  /** 0 none, 1 HCA, 2 global */
  atomicCap: number;
  maxSrq: number;
  maxSrqWr: number;
  maxSrqSge: number;
  maxAh: number;
  maxMw: number;
  maxPkeys: number;
  maxMcastGrp: number;
  maxMcastQpAttach: number;
  maxTotalMcastQpAttach: number;
  /** Code of the acknowledgement delay: 4.096 us * 2^code. */
  localCaAckDelay: number;
  sysImageGuid: string;
  physPortCnt: number;
  deviceCapFlags: number;
}

/** Support for on-demand paging, by transport: IBV_ODP_SUPPORT_* bits. */
export interface OdpCaps {
  /** IBV_ODP_SUPPORT (1), IBV_ODP_SUPPORT_IMPLICIT (2) */
  general: number;
  rc: number;
  uc: number;
  ud: number;
  xrc: number;
}

/** ibv_query_device_ex(3): attributes that `queryDevice` lacks. A device without a feature reports zeros. */
export interface DeviceAttrEx {
  odp: OdpCaps;
  /** Valid bits of a completion timestamp; 0 if this device has no completion timestamps. */
  completionTimestampMask: bigint;
  /** Rate of the clock behind those timestamps; 0 if unknown. */
  hcaCoreClockKhz: number;
  deviceCapFlagsEx: bigint;
  tso: { maxTsoBytes: number; supportedQpTypes: number };
  rss: { supportedQpTypes: number; maxRwqIndirectionTables: number; maxRwqIndirectionTableSize: number };
  maxWqTypeRq: number;
  rawPacketCaps: number;
  tagMatching: { maxRndvHdrBytes: number; maxNumTags: number; flags: number; maxOps: number; maxSge: number };
  /**
   * Limits of modifyCq: the maximum number of completions, and of microseconds, that one event may cover; 0 if the
   * device cannot moderate events.
   */
  cqModeration: { maxCount: number; maxPeriodUs: number };
  /** Limits of modifyQpRateLimit; both 0 if rates cannot be limited. */
  packetPacing: { minKbps: number; maxKbps: number; supportedQpTypes: number };
  maxDeviceMemoryBytes: number;
  xrc: boolean;
}

/** ibv_query_rt_values_ex(3). */
export interface RtValues {
  /** The clock of completion timestamps. */
  ticks: bigint;
}

/** ibv_query_port(3). */
export interface PortAttr {
  state: number;
  /** IBV_MTU_* */
  maxMtu: number;
  activeMtu: number;
  gidTblLen: number;
  portCapFlags: number;
  maxMsgSizeBytes: number;
  pkeyTblLen: number;
  lid: number;
  smLid: number;
  lmc: number;
  activeWidth: number;
  activeSpeed: number;
  physState: number;
  /** 'InfiniBand' or 'Ethernet' */
  linkLayer: string;
}

/** One entry of a port's GID table. */
export interface GidEntry {
  index: number;
  /** IPv6 notation, as ibv_devinfo prints it: `::ffff:10.77.0.1`. */
  gid: string;
  /** 'IB', 'RoCE v1' or 'RoCE v2' */
  type: string;
  /** Index of the network interface behind it (as in `ip link`), or 0. */
  ndevIfindex: number;
}

/** A registered memory region. `memory` is the ArrayBuffer that it covers. */
export interface MrInfo {
  handle: number;
  lkey: number;
  rkey: number;
  /** Address of the first byte, below 2^53; peers use it as the remote address. */
  addr: number;
  lengthBytes: number;
  memory: ArrayBuffer | SharedArrayBuffer;
  /** Where the region begins inside `memory`. */
  byteOffset: number;
}

/** The changes of ibv_rereg_mr(3). Absent attributes stay as they are. */
export interface MrChange {
  pd?: number;
  access?: number;
  translation?: { memory: ArrayBuffer | SharedArrayBuffer; byteOffset: number; lengthBytes: number };
}

/** A memory window. */
export interface MwInfo {
  handle: number;
  /** IBV_MW_TYPE_* */
  type: number;
  /** Valid once the window is bound. Each bind changes the key; queryMw returns the current one. */
  rkey: number;
}

/** ibv_create_cq_ex(3). */
export interface CqOptions {
  /** Which of the device's completion vectors (interrupts) raises its events. Default 0. */
  compVector?: number;
  /** IBV_WC_EX_WITH_*: completions report these too (WC_TICKS_*, WC_WALLCLOCK_*). */
  wcFlags?: number;
}

/** A completion queue. */
export interface CqInfo {
  handle: number;
  /** Granted entries, at least as many as requested. */
  cqe: number;
}

/** ibv_srq_init_attr_ex. */
export interface SrqInitAttr {
  maxWr: number;
  maxSge: number;
  /** IBV_SRQT_*; default IBV_SRQT_BASIC. */
  srqType?: number;
  /** For IBV_SRQT_XRC: the XRC domain, and the CQ on which receives complete. */
  xrcd?: number;
  cq?: number;
}

/** A shared receive queue. */
export interface SrqInfo {
  handle: number;
  /** Granted sizes. */
  maxWr: number;
  maxSge: number;
  /** For IBV_SRQT_XRC, the number that senders use; otherwise 0. */
  srqNum: number;
}

/** ibv_srq_attr. */
export interface SrqAttr {
  maxWr: number;
  maxSge: number;
  /** IBV_EVENT_SRQ_LIMIT_REACHED is raised once, when fewer receives than this are left; 0 if not armed. */
  srqLimit: number;
}

/** ibv_qp_cap. */
export interface QpCap {
  maxSendWr: number;
  maxRecvWr: number;
  maxSendSge: number;
  maxRecvSge: number;
  maxInlineData: number;
}

/** ibv_qp_init_attr_ex, with handles. */
export interface QpInitAttr extends QpLabels {
  qpType: number;
  /** For IBV_QPT_XRC_RECV, which has no queues, both CQs are 0, and all capacities too. */
  sendCq: number;
  recvCq: number;
  cap: QpCap;
  /** Receives come from this shared receive queue; the queue pair has no receive queue. */
  srq?: number;
  /** For IBV_QPT_XRC_RECV: its XRC domain, in place of a protection domain. */
  xrcd?: number;
  /** Whether posts go through ibv_wr_*(3) (ibv_create_qp_ex with send_ops_flags); the queue pair behaves the same. */
  extended?: boolean;
  /** Whether every send request completes visibly, as if IBV_SEND_SIGNALED were set. */
  sqSigAll: boolean;
  /**
   * Extension of isoverbs: a managed queue pair fetches its requests only as ENABLE requests on other queue pairs
   * allow.
   */
  managed?: boolean;
}

/** A queue pair. */
export interface QpInfo {
  handle: number;
  qpNum: number;
  /** Granted capacities. */
  cap: QpCap;
}

/** ibv_ah_attr. */
export interface AhAttr {
  /** GID of the destination in IPv6 notation; absent for LID routing. */
  dgid?: string;
  dlid?: number;
  sgidIndex?: number;
  hopLimit?: number;
  trafficClass?: number;
  flowLabel?: number;
  sl?: number;
  srcPathBits?: number;
  staticRate?: number;
  portNum?: number;
}

/** ibv_qp_attr; a field counts when its IBV_QP_* bit is in the mask. Labels have ISO_QP_* bits. */
export interface QpAttr extends QpLabels {
  qpState?: number;
  curQpState?: number;
  pathMtu?: number;
  pathMigState?: number;
  qkey?: number;
  rqPsn?: number;
  sqPsn?: number;
  destQpNum?: number;
  qpAccessFlags?: number;
  cap?: QpCap;
  ah?: AhAttr;
  pkeyIndex?: number;
  enSqdAsyncNotify?: number;
  maxRdAtomic?: number;
  maxDestRdAtomic?: number;
  minRnrTimer?: number;
  portNum?: number;
  timeout?: number;
  retryCnt?: number;
  rnrRetry?: number;
  rateLimitKbps?: number;
  /** Reported by queryQp in SQD: whether requests that began earlier are still in progress. */
  sqDraining?: boolean;
}

/** ibv_qp_rate_limit_attr. */
export interface QpRateLimit {
  /** 0 means no limit. */
  rateLimitKbps: number;
  maxBurstBytes?: number;
  typicalPktBytes?: number;
}

/** ibv_ece: enhanced connection establishment, options that two vendors' devices agree on. */
export interface Ece {
  vendorId: number;
  options: number;
}

/** Ring memory that TypeScript writes and the provider reads (work requests), or the reverse (completions). */
export interface RingInfo {
  handle: number;
  memory: ArrayBuffer;
  capacity: number;
  /** Bytes of one slot's extension (layout.ts). */
  extBytes: number;
}

/** Called once for each completion event, with the handle of its CQ. */
export type CompletionListener = (cq: number) => void;

/**
 * Called once for each asynchronous event (ibv_get_async_event(3)), which is then acknowledged. `element` is the handle of
 * the queue pair, completion queue or shared receive queue concerned, or the port number.
 */
export type AsyncListener = (event: number, element: number) => void;

/** Options of openDevice. */
export interface OpenOptions {
  /** The tenant of this context; by default each context is a separate tenant. */
  tenant?: string;
  /** Its labels, and those of its queue pairs without labels of their own. */
  labels?: Partial<Labels>;
  /** Groups that the context creates (createGroup), with their weights. */
  groups?: Readonly<Record<string, number>>;
}
