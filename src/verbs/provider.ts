/**
 * The seam. `Verbs` is libibverbs, flat and synchronous, with integer handles; a `Provider` implements it
 * (src/providers), an interceptor wraps it (src/shim/compose.ts), and the object layer stands on it
 * (src/objects). Control verbs throw an IsoverbsError; postSend, postRecv and pollCq return counts.
 *
 * Times are float64 nanoseconds, sizes are bytes. Addresses are numbers: every one that a provider hands
 * out is below 2^53.
 */

/** What `getDeviceList` knows of a device before it is opened. */
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
  physPortCnt: number;
  deviceCapFlags: number;
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
}

/** What a registered memory region is known by. `memory` is the ArrayBuffer that it covers. */
export interface MrInfo {
  handle: number;
  lkey: number;
  rkey: number;
  /** Address of the first byte, below 2^53; what peers use as remote address. */
  addr: number;
  lengthBytes: number;
  memory: ArrayBuffer | SharedArrayBuffer;
  /** Where the region begins inside `memory`. */
  byteOffset: number;
}

export interface CqInfo {
  handle: number;
  /** Entries granted, at least what was asked for. */
  cqe: number;
}

/** ibv_qp_cap. */
export interface QpCap {
  maxSendWr: number;
  maxRecvWr: number;
  maxSendSge: number;
  maxRecvSge: number;
  maxInlineData: number;
}

/** ibv_qp_init_attr, with handles. */
export interface QpInitAttr {
  qpType: number;
  sendCq: number;
  recvCq: number;
  cap: QpCap;
  /** Every send request completes visibly, as if IBV_SEND_SIGNALED were set. */
  sqSigAll: boolean;
  /** ISO: a managed queue pair fetches its requests only as ENABLE requests on other queue pairs allow. */
  managed?: boolean;
}

export interface QpInfo {
  handle: number;
  qpNum: number;
  /** What was granted. */
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

/** ibv_qp_attr; a field counts when its IBV_QP_* bit is in the mask. */
export interface QpAttr {
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

export interface OpenOptions {
  /** Who this context works for; by default each context is a tenant of its own. */
  tenant?: string;
}

/** ibv_*: one function each. A function may be called without `this`. */
export interface Verbs {
  /** @throws NoDeviceError never: no devices is an empty list. */
  getDeviceList(): DeviceInfo[];
  /** ibv_open_device(3). @throws NoDeviceError */
  openDevice(name: string, options?: OpenOptions): number;
  /** ibv_close_device(3). @throws BusyError while it has children */
  closeDevice(context: number): void;
  queryDevice(context: number): DeviceAttr;
  queryPort(context: number, portNum: number): PortAttr;
  /** @throws InvalidArgumentError beyond the table; unused entries have the gid '::'. */
  queryGid(context: number, portNum: number, index: number): GidEntry;
  allocPd(context: number): number;
  deallocPd(pd: number): void;
  /** Memory of the provider's own, page-aligned and zeroed, registered. deregMr detaches its ArrayBuffer. */
  allocMr(pd: number, lengthBytes: number, access: number): MrInfo;
  /** ibv_reg_mr(3) over the caller's memory. @throws MemoryError for resizable or detached buffers */
  regMr(
    pd: number,
    memory: ArrayBuffer | SharedArrayBuffer,
    byteOffset: number,
    lengthBytes: number,
    access: number,
  ): MrInfo;
  deregMr(mr: number): void;
  createCompChannel(context: number): number;
  destroyCompChannel(channel: number): void;
  /** Listens for completion events on the env's event loop (null: no more). Events are acknowledged. */
  watchCompChannel(channel: number, listener: CompletionListener | null): void;
  /** Whether waiting on this channel keeps the process alive (at first it does not). */
  refCompChannel(channel: number, keepAlive: boolean): void;
  /** ibv_create_cq(3); channel 0 for none. */
  createCq(context: number, cqe: number, channel: number): CqInfo;
  destroyCq(cq: number): void;
  /** ibv_req_notify_cq(3): one event for the next completion (or the next solicited or failed one). */
  reqNotifyCq(cq: number, solicitedOnly: boolean): void;
  createQp(pd: number, attr: QpInitAttr): QpInfo;
  /** ibv_modify_qp(3). @throws InvalidStateError naming missing and disallowed bits of the mask */
  modifyQp(qp: number, attr: QpAttr, mask: number): void;
  /** ibv_query_qp(3), whole: the mask that libibverbs takes is only a hint. */
  queryQp(qp: number): { attr: QpAttr; init: QpInitAttr };
  destroyQp(qp: number): void;
  /** Memory for work requests: `capacity` slots, each with room for `sges` SGEs or `inlineBytes`. */
  createWrRing(capacity: number, sges: number, inlineBytes: number): RingInfo;
  createWcRing(capacity: number): RingInfo;
  /** Frees a ring of either kind and detaches its ArrayBuffer. */
  destroyRing(ring: number): void;
  /**
   * ibv_post_send(3) for the slots start .. start + count - 1 of a work-request ring.
   * Returns how many were taken. Their running numbers (WC_SEQ) count from 0 at creation and go on through
   * a RESET. Short: HDR_ERRNO and HDR_REASON of the ring say why slot
   * start + returned was not. A bad handle throws.
   */
  postSend(qp: number, ring: number, start: number, count: number): number;
  /** ibv_post_recv(3), in the same way. */
  postRecv(qp: number, ring: number, start: number, count: number): number;
  /**
   * The errno that postSend would give for this one slot if the queue had room, 0 for none; posts nothing.
   * Not 0: HDR_ERRNO and HDR_REASON of the ring say why.
   */
  validateSend(qp: number, ring: number, index: number): number;
  /** ibv_poll_cq(3) into the slots start .. start + max - 1; returns how many. */
  pollCq(cq: number, ring: number, start: number, max: number): number;
}

/**
 * simulated, hardware: ISO_WR_WAIT and ISO_WR_ENABLE may be posted and the device executes them.
 * emulated: a shim executes them. none: they are refused.
 */
export type WaitSupport = 'simulated' | 'hardware' | 'emulated' | 'none';

/** A reliable, ordered byte-message channel for the exchange of connection data. */
export interface Wire {
  send(message: Uint8Array): void;
  /** No more from this side; the peer's onClose is called. */
  close(): void;
  onMessage: (message: Uint8Array) => void;
  /** Called once, with an error when the other side broke off or spoke nonsense. */
  onClose: (error?: Error) => void;
  readonly remoteAddress: string;
}

export interface WireServer {
  readonly port: number;
  close(): void;
}

/** How two ends find each other: TCP on real devices, in memory on simulated ones. */
export interface Rendezvous {
  listen(
    context: number,
    options: { port: number; host?: string },
    onWire: (wire: Wire) => void,
  ): Promise<WireServer>;
  connect(context: number, options: { port: number; host?: string; timeoutMs?: number }): Promise<Wire>;
}

export interface Provider extends Verbs {
  readonly name: string;
  /** 'one': all calls must come from the isolate that made the provider. */
  readonly threads: 'any' | 'one';
  readonly wait: WaitSupport;
  readonly rendezvous: Rendezvous;
  /** Names of the interceptors around it, outermost first. */
  readonly interceptors: readonly string[];
  /** The device's time: virtual on simulated devices, a monotonic clock on real ones. */
  nowNs(context: number): number;
  /** Resolves when `delayNs` of the device's time have gone by. */
  sleep(context: number, delayNs: number): Promise<void>;
}

/** Names of all verbs; `compose` refuses any other. */
export const VERB_NAMES = [
  'getDeviceList',
  'openDevice',
  'closeDevice',
  'queryDevice',
  'queryPort',
  'queryGid',
  'allocPd',
  'deallocPd',
  'allocMr',
  'regMr',
  'deregMr',
  'createCompChannel',
  'destroyCompChannel',
  'watchCompChannel',
  'refCompChannel',
  'createCq',
  'destroyCq',
  'reqNotifyCq',
  'createQp',
  'modifyQp',
  'queryQp',
  'destroyQp',
  'createWrRing',
  'createWcRing',
  'destroyRing',
  'postSend',
  'postRecv',
  'validateSend',
  'pollCq',
] as const satisfies readonly (keyof Verbs)[];
