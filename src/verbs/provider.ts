/**
 * The seam. `Verbs` is libibverbs, flat and synchronous, with integer handles; a `Provider` implements it
 * (src/providers), an interceptor wraps it (src/shim/compose.ts), and the object layer stands on it
 * (src/objects). Control verbs throw an IsoverbsError; postSend, postRecv and pollCq return counts.
 *
 * Times are float64 nanoseconds, sizes are bytes. Addresses are numbers: every one that a provider hands
 * out is below 2^53.
 */
import type { NicFacts } from './nic.ts';

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
  maxMcastGrp: number;
  maxMcastQpAttach: number;
  maxTotalMcastQpAttach: number;
  /** Code of the time to an acknowledgement: 4.096 us * 2^code. */
  localCaAckDelay: number;
  sysImageGuid: string;
  physPortCnt: number;
  deviceCapFlags: number;
}

/** What on-demand paging can do, by transport: IBV_ODP_SUPPORT_* bits. */
export interface OdpCaps {
  /** IBV_ODP_SUPPORT (1), IBV_ODP_SUPPORT_IMPLICIT (2) */
  general: number;
  rc: number;
  uc: number;
  ud: number;
  xrc: number;
}

/** ibv_query_device_ex(3): what `queryDevice` has no room for. A device without a feature answers zeros. */
export interface DeviceAttrEx {
  odp: OdpCaps;
  /** Which bits of a completion timestamp count; 0: this device stamps no completions. */
  completionTimestampMask: bigint;
  /** Rate of the clock behind those timestamps; 0: unknown. */
  hcaCoreClockKhz: number;
  deviceCapFlagsEx: bigint;
  tso: { maxTsoBytes: number; supportedQpTypes: number };
  rss: { supportedQpTypes: number; maxRwqIndirectionTables: number; maxRwqIndirectionTableSize: number };
  maxWqTypeRq: number;
  rawPacketCaps: number;
  tagMatching: { maxRndvHdrBytes: number; maxNumTags: number; flags: number; maxOps: number; maxSge: number };
  /** modifyCq: most completions and microseconds that one event may stand for; 0: no moderation. */
  cqModeration: { maxCount: number; maxPeriodUs: number };
  /** modifyQpRateLimit; 0 and 0: no limits. */
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
  /** Index of the network interface behind it (as in `ip link`); 0: none. */
  ndevIfindex: number;
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

/** ibv_rereg_mr(3): what changes; what is absent stays. */
export interface MrChange {
  pd?: number;
  access?: number;
  translation?: { memory: ArrayBuffer | SharedArrayBuffer; byteOffset: number; lengthBytes: number };
}

/** What a memory window is known by. */
export interface MwInfo {
  handle: number;
  /** IBV_MW_TYPE_* */
  type: number;
  /** Opens nothing until the window is bound. Each bind changes it: queryMw tells. */
  rkey: number;
}

/** ibv_create_cq_ex(3). */
export interface CqOptions {
  /** Which of the device's completion vectors (interrupts) raises its events. Default 0. */
  compVector?: number;
  /** IBV_WC_EX_WITH_*: completions report these too (WC_TICKS_*, WC_WALLCLOCK_*). */
  wcFlags?: number;
}

/** What a completion queue is known by. */
export interface CqInfo {
  handle: number;
  /** Entries granted, at least what was asked for. */
  cqe: number;
}

/** ibv_srq_init_attr_ex. */
export interface SrqInitAttr {
  maxWr: number;
  maxSge: number;
  /** IBV_SRQT_*; default IBV_SRQT_BASIC. */
  srqType?: number;
  /** IBV_SRQT_XRC: XRC domain, and where its receives complete. */
  xrcd?: number;
  cq?: number;
}

/** What a shared receive queue is known by. */
export interface SrqInfo {
  handle: number;
  /** What was granted. */
  maxWr: number;
  maxSge: number;
  /** IBV_SRQT_XRC: what senders name; else 0. */
  srqNum: number;
}

/** ibv_srq_attr. */
export interface SrqAttr {
  maxWr: number;
  maxSge: number;
  /** IBV_EVENT_SRQ_LIMIT_REACHED is raised, once, when fewer receives are left; 0: not armed. */
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
export interface QpInitAttr {
  qpType: number;
  /** IBV_QPT_XRC_RECV has no queues of its own: 0, 0 and a cap of zeros. */
  sendCq: number;
  recvCq: number;
  cap: QpCap;
  /** Receives come from this shared receive queue; the queue pair has none of its own. */
  srq?: number;
  /** IBV_QPT_XRC_RECV: its XRC domain, in place of a protection domain. */
  xrcd?: number;
  /** Posts go through ibv_wr_*(3) (ibv_create_qp_ex with send_ops_flags); it behaves the same. */
  extended?: boolean;
  /** Every send request completes visibly, as if IBV_SEND_SIGNALED were set. */
  sqSigAll: boolean;
  /** ISO: a managed queue pair fetches its requests only as ENABLE requests on other queue pairs allow. */
  managed?: boolean;
}

/** What a queue pair is known by. */
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
  rateLimitKbps?: number;
  /** queryQp in SQD: whether requests that began before are still going on. */
  sqDraining?: boolean;
}

/** ibv_qp_rate_limit_attr. */
export interface QpRateLimit {
  /** 0: no limit. */
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
 * Called once for each asynchronous event (ibv_get_async_event(3)), which is acknowledged. `element` is the
 * handle of the queue pair, completion queue or shared receive queue that it is about, or the port number.
 */
export type AsyncListener = (event: number, element: number) => void;

/** What openDevice takes beside the name. */
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
  /** ibv_query_device(3) */
  queryDevice(context: number): DeviceAttr;
  /** ibv_query_device_ex(3) */
  queryDeviceEx(context: number): DeviceAttrEx;
  /** ibv_query_rt_values_ex(3). @throws UnsupportedError where completions are not stamped */
  queryRtValues(context: number): RtValues;
  /** ibv_query_port(3); ports count from 1. @throws InvalidArgumentError */
  queryPort(context: number, portNum: number): PortAttr;
  /** @throws InvalidArgumentError beyond the table; unused entries have the gid '::'. */
  queryGid(context: number, portNum: number, index: number): GidEntry;
  /** ibv_query_pkey(3), in host byte order. @throws InvalidArgumentError beyond the table */
  queryPkey(context: number, portNum: number, index: number): number;
  /** Listens for asynchronous events on the env's event loop (null: no more). */
  watchAsyncEvents(context: number, listener: AsyncListener | null): void;
  /** Whether listening keeps the process alive (at first it does not). */
  refAsyncEvents(context: number, keepAlive: boolean): void;
  /** ibv_open_xrcd(3) of a domain that only this process shares. @throws UnsupportedError */
  openXrcd(context: number): number;
  /** ibv_close_xrcd(3). @throws BusyError while it has children */
  closeXrcd(xrcd: number): void;
  /** ibv_alloc_pd(3). @throws NoResourcesError */
  allocPd(context: number): number;
  /** ibv_dealloc_pd(3). @throws BusyError while it has children */
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
  /**
   * ibv_reg_dmabuf_mr(3): memory of another device, which has no ArrayBuffer (`memory` is empty).
   * @throws UnsupportedError
   */
  regDmabufMr(
    pd: number,
    offsetBytes: number,
    lengthBytes: number,
    iova: number,
    fd: number,
    access: number,
  ): MrInfo;
  /** ibv_rereg_mr(3). Keys and address may change. @throws UnsupportedError */
  reregMr(mr: number, change: MrChange): MrInfo;
  /** ibv_dereg_mr(3). @throws BusyError while windows are bound to it */
  deregMr(mr: number): void;
  /** ibv_alloc_mw(3). Bound by a posted BIND_MW of either type. @throws UnsupportedError */
  allocMw(pd: number, type: number): MwInfo;
  /** The key that the window has now: after the bind that changed it has been posted. */
  queryMw(mw: number): MwInfo;
  /** ibv_dealloc_mw(3) */
  deallocMw(mw: number): void;
  /** ibv_create_ah(3). */
  createAh(pd: number, attr: AhAttr): number;
  /** ibv_destroy_ah(3) */
  destroyAh(ah: number): void;
  /** ibv_create_comp_channel(3). @throws NoResourcesError */
  createCompChannel(context: number): number;
  /** ibv_destroy_comp_channel(3). @throws BusyError while queues use it */
  destroyCompChannel(channel: number): void;
  /** Listens for completion events on the env's event loop (null: no more). Events are acknowledged. */
  watchCompChannel(channel: number, listener: CompletionListener | null): void;
  /** Whether waiting on this channel keeps the process alive (at first it does not). */
  refCompChannel(channel: number, keepAlive: boolean): void;
  /** ibv_create_cq(3); channel 0 for none. With wcFlags: ibv_create_cq_ex(3). @throws UnsupportedError */
  createCq(context: number, cqe: number, channel: number, options?: CqOptions): CqInfo;
  /** ibv_resize_cq(3): entries granted. @throws BusyError when more completions wait, UnsupportedError */
  resizeCq(cq: number, cqe: number): number;
  /** ibv_modify_cq(3): one event for `maxCount` completions or after `periodUs`. @throws UnsupportedError */
  modifyCq(cq: number, maxCount: number, periodUs: number): void;
  /** ibv_destroy_cq(3). @throws BusyError while queue pairs use it */
  destroyCq(cq: number): void;
  /** ibv_req_notify_cq(3): one event for the next completion (or the next solicited or failed one). */
  reqNotifyCq(cq: number, solicitedOnly: boolean): void;
  /** ibv_create_srq_ex(3). @throws NoResourcesError, UnsupportedError */
  createSrq(pd: number, attr: SrqInitAttr): SrqInfo;
  /** ibv_modify_srq(3): IBV_SRQ_LIMIT arms the limit event, IBV_SRQ_MAX_WR resizes. */
  modifySrq(srq: number, attr: Partial<SrqAttr>, mask: number): void;
  /** ibv_query_srq(3) */
  querySrq(srq: number): SrqAttr;
  /** ibv_destroy_srq(3). @throws BusyError while queue pairs use it */
  destroySrq(srq: number): void;
  /** ibv_create_qp(3), ibv_create_qp_ex(3). `pd` is 0 for IBV_QPT_XRC_RECV. */
  createQp(pd: number, attr: QpInitAttr): QpInfo;
  /** ibv_modify_qp(3). @throws InvalidStateError naming missing and disallowed bits of the mask */
  modifyQp(qp: number, attr: QpAttr, mask: number): void;
  /** ibv_query_qp(3), whole: the mask that libibverbs takes is only a hint. */
  queryQp(qp: number): { attr: QpAttr; init: QpInitAttr };
  /** ibv_destroy_qp(3). @throws BusyError while it is attached to a group */
  destroyQp(qp: number): void;
  /** ibv_modify_qp_rate_limit(3). @throws UnsupportedError */
  modifyQpRateLimit(qp: number, limit: QpRateLimit): void;
  /** ibv_query_qp_data_in_order(3): 1 when data of this opcode lands in order. */
  queryQpDataInOrder(qp: number, opcode: number, flags: number): number;
  /** ibv_query_ece(3). @throws UnsupportedError */
  queryEce(qp: number): Ece;
  /** ibv_set_ece(3). @throws UnsupportedError */
  setEce(qp: number, ece: Ece): void;
  /** ibv_attach_mcast(3): a UD queue pair receives what is sent to the group. */
  attachMcast(qp: number, gid: string, lid: number): void;
  /** ibv_detach_mcast(3). @throws InvalidArgumentError when it is not attached */
  detachMcast(qp: number, gid: string, lid: number): void;
  /** Memory for work requests: `capacity` slots, each with room for `sges` SGEs or `inlineBytes`. */
  createWrRing(capacity: number, sges: number, inlineBytes: number): RingInfo;
  /** Memory for `capacity` completions. */
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
  /** ibv_post_srq_recv(3), in the same way. */
  postSrqRecv(srq: number, ring: number, start: number, count: number): number;
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
  /** Sends one message to the other side; it is copied. */
  send(message: Uint8Array): void;
  /** No more from this side; the peer's onClose is called. */
  close(): void;
  /** Called for each message of the other side. */
  onMessage: (message: Uint8Array) => void;
  /** Called once, with an error when the other side broke off or spoke nonsense. */
  onClose: (error?: Error) => void;
  readonly remoteAddress: string;
}

/** What listens for wires. */
export interface WireServer {
  readonly port: number;
  /** Takes no more callers. */
  close(): void;
}

/** How two ends find each other: TCP on real devices, in memory on simulated ones. */
export interface Rendezvous {
  /** Calls `onWire` for everyone who connects to this port (0: a free one). @throws ConnectionError */
  listen(
    context: number,
    options: { port: number; host?: string },
    onWire: (wire: Wire) => void,
  ): Promise<WireServer>;
  /** Connects to a listener. @throws ConnectionError */
  connect(context: number, options: { port: number; host?: string; timeoutMs?: number }): Promise<Wire>;
}

/** What the connection manager tells (rdma_cm_event), acknowledged when the listener returns. */
export interface CmEvent {
  /** RDMA_CM_EVENT_* */
  event: number;
  /** The identifier that it is about; of a CONNECT_REQUEST, a new one. */
  id: number;
  /** The listening identifier of a CONNECT_REQUEST; else 0. */
  listenId: number;
  /** Negative errno; of REJECTED the reason, as InfiniBand numbers them (28: by the application). */
  status: number;
  /** Whole as it came over the wire, which pads it with zeros: requests 56 bytes, answers 196 ... */
  privateData: Uint8Array;
  /** RDMA_PS_TCP, CONNECT_REQUEST and CONNECT_RESPONSE: what the peer offers. */
  conn?: CmConnParam;
  /** RDMA_PS_UDP, ESTABLISHED of who connects, and MULTICAST_JOIN: how to reach the peer or the group. */
  ud?: { ah: AhAttr; qpNum: number; qkey: number };
}

/** rdma_conn_param. */
export interface CmConnParam {
  /** At most: connect 56 bytes (RDMA_PS_UDP: 180), accept 196 (136). */
  privateData?: Uint8Array;
  /** Default RDMA_MAX_RESP_RES: as many as the device has; accepting, as the peer asks for. */
  responderResources?: number;
  /** Default RDMA_MAX_INIT_DEPTH, likewise. */
  initiatorDepth?: number;
  flowControl?: number;
  /** 0 to 7, default 7. Who connects decides. */
  retryCount?: number;
  /** 0 to 7, default 7 */
  rnrRetryCount?: number;
  srq?: boolean;
  /** Needed, but to connect in RDMA_PS_UDP. */
  qpNum?: number;
}

/** A numeric IPv4 or IPv6 address as text; link-local ones with the interface: fe80::1%eth0. */
export interface CmAddress {
  address: string;
  port: number;
}

/** What an identifier is bound to. */
export interface CmIdInfo {
  /** Name for openDevice, '' before an address was resolved or bound to a device. */
  deviceName: string;
  portNum: number;
  /** '' and 0: none yet. */
  local: CmAddress;
  remote: CmAddress;
}

/**
 * librdmacm, flat: identifiers are handles, what it answers comes as events. It moves no queue pair: the
 * caller creates one (createQp), asks `initQpAttr` for each transition, and tells its number in the
 * parameters, as with an rdma_cm_id without a queue pair (rdma_create_qp(3), NOTES of rdma_init_qp_attr).
 */
export interface ConnectionManager {
  /** rdma_create_event_channel(3). @throws NoDeviceError where the kernel has no rdma_cm, or no device */
  createEventChannel(): number;
  /** Identifiers of requests that no verb has named go with it. @throws BusyError while there are others */
  destroyEventChannel(channel: number): void;
  /** Listens for events on the env's event loop (null: no more). They are acknowledged. */
  watchEventChannel(channel: number, listener: ((event: CmEvent) => void) | null): void;
  /** Whether listening keeps the process alive (at first it does not). */
  refEventChannel(channel: number, keepAlive: boolean): void;
  /** rdma_create_id(3); RDMA_PS_TCP or RDMA_PS_UDP. */
  createId(channel: number, portSpace: number): number;
  /** rdma_destroy_id(3) */
  destroyId(id: number): void;
  /** What an identifier is bound to. */
  queryId(id: number): CmIdInfo;
  /** rdma_bind_addr(3). @throws ConnectionError (EADDRINUSE), NoDeviceError where no device has the address */
  bindAddr(id: number, local: CmAddress): void;
  /** rdma_resolve_addr(3): ADDR_RESOLVED or ADDR_ERROR. */
  resolveAddr(id: number, local: CmAddress | null, remote: CmAddress, timeoutMs: number): void;
  /** rdma_resolve_route(3): ROUTE_RESOLVED or ROUTE_ERROR. */
  resolveRoute(id: number, timeoutMs: number): void;
  /** rdma_listen(3): CONNECT_REQUEST for each that comes. */
  listen(id: number, backlog: number): void;
  /**
   * rdma_connect(3): CONNECT_RESPONSE or REJECTED, RDMA_PS_UDP: ESTABLISHED or UNREACHABLE (status 2: rejected);
   * UNREACHABLE also when nobody answers.
   */
  connect(id: number, param: CmConnParam): void;
  /** rdma_establish(3): after CONNECT_RESPONSE, when the queue pair is in RTS. */
  establish(id: number): void;
  /**
   * rdma_accept(3), when the queue pair is in RTS; ESTABLISHED when the other side is ready too. RDMA_PS_UDP:
   * privateData, qpNum and qkey answer the request (librdmacm knows RDMA_UDP_QKEY only).
   */
  accept(id: number, param: CmConnParam & { qkey?: number }): void;
  /** rdma_reject(3): at most 148 bytes (RDMA_PS_UDP: 136). */
  reject(id: number, privateData: Uint8Array): void;
  /** rdma_disconnect(3): DISCONNECTED there, and here when the other side has called it too. */
  disconnect(id: number): void;
  /** rdma_notify(3): IBV_EVENT_COMM_EST. */
  notify(id: number, event: number): void;
  /**
   * rdma_init_qp_attr(3): what modifyQp wants for INIT, RTR or RTS. RTR and RTS are known once there is a
   * request or a response; INIT opens no memory to the peer before that, so it is asked for and set again.
   */
  initQpAttr(id: number, qpState: number): { attr: QpAttr; mask: number };
  /** rdma_join_multicast(3): MULTICAST_JOIN or MULTICAST_ERROR; then attachMcast. The group's port says nothing. */
  joinMulticast(id: number, group: CmAddress): void;
  /** rdma_leave_multicast(3) */
  leaveMulticast(id: number, group: CmAddress): void;
}

/**
 * program (the default): the program goes on until the sleep ends, and so does a run of simulated devices;
 * run: only that run does, as it moves time as far as there is something to come; nothing: neither of them.
 */
export type SleepKeeps = 'program' | 'run' | 'nothing';

/** What a shim around a provider counted. */
export interface ShimCounters {
  /** Requests that it took from the application. */
  seen: number;
  /** Of these, those that were cut. */
  split: number;
  /** Of these, those that did not go straight to the device. */
  held: number;
  /** WAITs that it executed in software. */
  emulated: number;
  /** Requests that it made itself; `waits` counts each 0_WAIT, `posts` are those on queue pairs of its own. */
  internal: { pieces: number; waits: number; enables: number; posts: number };
  /** Message bytes of the requests seen. Those that go straight are weighed where the policy has `statistics`. */
  bytes: number;
  /** Most requests that one send queue of the device held at a time. */
  sqHighWater: number;
  /** Completions that were nobody's but the shim's. */
  hiddenCompletions: number;
  /** Completions that the shim polled before the application did. */
  bufferedCompletions: number;
}

/** What a policy thinks of an open context. */
export interface PolicyState {
  readonly policy: string;
  readonly device: string;
  readonly tenant: string;
  /** What it takes the context for, and by what. */
  readonly kind: string;
  readonly because: string;
  /** What it does about it now, and why. */
  readonly does: string;
  readonly why: string;
}

/** The counters of one shim of several. */
export interface LayerCounters extends ShimCounters {
  /** Its name among `interceptors`. */
  name: string;
}

/**
 * What two shims tell each other of a queue pair while a connection is set up. Who makes connections carries
 * the bytes, unread, to the peer; the outermost shim that has something to agree on answers.
 */
export interface PeerVerbs {
  /** Bytes for the peer's shim, of a queue pair in INIT or later; null: nothing to agree on. */
  describePeer?(qp: number): Uint8Array | null;
  /** What the peer's shim said; null: it has none. Before anything is sent. Both count until RESET. */
  setPeer?(qp: number, description: Uint8Array | null): void;
}

/**
 * How a driver that lets requests and completions bypass a shim, while they do not concern it, tells it how many
 * they were. Running numbers are those of WC_SEQ.
 */
export interface Adopt {
  /** Sends posted, the first of them not known to be complete, and the last one that reports. */
  qp(qp: number, posted: number, freed: number, lastSignaled: number): void;
  /** Completions that the application has been given. */
  cq(cq: number, produced: number): void;
}

export interface Provider extends Verbs, PeerVerbs {
  readonly name: string;
  /** 'one': all calls must come from the isolate that made the provider. */
  readonly threads: 'any' | 'one';
  readonly wait: WaitSupport;
  /** One sentence for a person: how this device would do WAIT and ENABLE, and why not in hardware. */
  describeWait?(context: number): string;
  /** What is known of the NIC's pipeline; null or absent: nothing. */
  describeNic?(context: number): NicFacts | null;
  readonly rendezvous: Rendezvous;
  /** Null where there is none (librdmacm is not installed): `cmError` says why. */
  readonly cm: ConnectionManager | null;
  readonly cmError: string | null;
  /** Where a shim is around it. */
  readonly adopt?: Adopt;
  /** Names of the interceptors around it, outermost first. */
  readonly interceptors: readonly string[];
  /** The device's time: virtual on simulated devices, a monotonic clock on real ones. */
  nowNs(context: number): number;
  /** Resolves when `delayNs` of the device's time have gone by; `keeps` says what does not end before. */
  sleep(context: number, delayNs: number, keeps?: SleepKeeps): Promise<void>;
  /** A random whole number below a bound, for who stands on the provider; absent: they take their own. */
  random?(below: number): number;
  /** What the shims around it counted, the outermost first. */
  counters?(): readonly LayerCounters[];
  /** What the policies around it think of each open context, and why. */
  policyStates?(): readonly PolicyState[];
  /**
   * Changes options of the policies of this name around it while they run: all of these, or none.
   * @throws ConfigError for an option that is wrong or cannot change, and when there is no such policy
   */
  configurePolicy?(name: string, changes: Readonly<Record<string, unknown>>): void;
  /** Of a shim with a coordinator: one like it, around it, tells from now on what the application does with a context. */
  yieldContext?(context: number): void;
}

/** Verbs that take memory or hand it out. */
export const MR_VERBS = [
  'allocMr',
  'regMr',
  'regDmabufMr',
  'reregMr',
  'deregMr',
] as const satisfies readonly (keyof Verbs)[];

/** Verbs of rings: the hot ones, and those that make and end rings. */
export const RING_VERBS = [
  'createWrRing',
  'createWcRing',
  'destroyRing',
  'postSend',
  'postRecv',
  'postSrqRecv',
  'validateSend',
  'pollCq',
] as const satisfies readonly (keyof Verbs)[];

/** Names of all verbs; `compose` refuses any other. */
export const VERB_NAMES = [
  'getDeviceList',
  'openDevice',
  'closeDevice',
  'queryDevice',
  'queryDeviceEx',
  'queryRtValues',
  'queryPort',
  'queryGid',
  'queryPkey',
  'watchAsyncEvents',
  'refAsyncEvents',
  'openXrcd',
  'closeXrcd',
  'allocPd',
  'deallocPd',
  ...MR_VERBS,
  'allocMw',
  'queryMw',
  'deallocMw',
  'createAh',
  'destroyAh',
  'createCompChannel',
  'destroyCompChannel',
  'watchCompChannel',
  'refCompChannel',
  'createCq',
  'resizeCq',
  'modifyCq',
  'destroyCq',
  'reqNotifyCq',
  'createSrq',
  'modifySrq',
  'querySrq',
  'destroySrq',
  'createQp',
  'modifyQp',
  'queryQp',
  'destroyQp',
  'modifyQpRateLimit',
  'queryQpDataInOrder',
  'queryEce',
  'setEce',
  'attachMcast',
  'detachMcast',
  ...RING_VERBS,
] as const satisfies readonly (keyof Verbs)[];
