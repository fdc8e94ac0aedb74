/**
 * The seam: libibverbs, flat and synchronous, with integer handles. Control verbs throw an IsoverbsError; postSend,
 * postRecv and pollCq return counts.
 */
import { EOPNOTSUPP } from './constants.ts';
import { UnsupportedError } from './errors.ts';
import type { Labels } from './labels.ts';
import type {
  AhAttr,
  AsyncListener,
  CompletionListener,
  CqInfo,
  CqOptions,
  DeviceAttr,
  DeviceAttrEx,
  DeviceInfo,
  Ece,
  GidEntry,
  MrChange,
  MrInfo,
  MwInfo,
  OpenOptions,
  PortAttr,
  QpAttr,
  QpInfo,
  QpInitAttr,
  QpRateLimit,
  RingInfo,
  RtValues,
  SrqAttr,
  SrqInfo,
  SrqInitAttr,
} from './types.ts';

/** One function for each ibv_* verb. Functions may be called without `this`. */
export interface Verbs {
  /** ibv_get_device_list(3). Without devices the list is empty. */
  getDeviceList(): DeviceInfo[];
  /** ibv_open_device(3). @throws NoDeviceError */
  openDevice(name: string, options?: OpenOptions): number;
  /**
   * ISO: changes labels of a context, and thereby of its queue pairs without labels of their own. Returns all labels of
   * the context. @throws InvalidArgumentError for a label that is wrong; then none changes
   */
  setLabels(context: number, change: Partial<Labels>): Labels;
  /**
   * ISO: creates a group of queue pairs, or joins the one that another context of the tenant has created on this device.
   * Its weight, from 1e-6 to 1e6, is relative to the other groups of the tenant; the last weight that a context sets
   * counts. The group exists while one context has it. Queue pairs belong to it by their label `group`.
   * @throws InvalidArgumentError, NoResourcesError for more than MAX_GROUPS of one context
   */
  createGroup(context: number, name: string, weight: number): void;
  /** ISO: sets the weight of a group that this context has created. @throws InvalidArgumentError if it has not */
  setGroup(context: number, name: string, weight: number): void;
  /**
   * ISO: the context gives up a group. When the last context has done so, the weight is 1, as without the group.
   * @throws BusyError while the label `group` of the context, or of a queue pair of it, names the group
   */
  destroyGroup(context: number, name: string): void;
  /** ibv_close_device(3); ends its groups. @throws BusyError while it has children */
  closeDevice(context: number): void;
  /** ibv_query_device(3) */
  queryDevice(context: number): DeviceAttr;
  /** ibv_query_device_ex(3) */
  queryDeviceEx(context: number): DeviceAttrEx;
  /** ibv_query_rt_values_ex(3). @throws UnsupportedError if completions have no timestamps */
  queryRtValues(context: number): RtValues;
  /** ibv_query_port(3); ports count from 1. @throws InvalidArgumentError */
  queryPort(context: number, portNum: number): PortAttr;
  /** @throws InvalidArgumentError beyond the table; unused entries have the gid '::'. */
  queryGid(context: number, portNum: number, index: number): GidEntry;
  /** ibv_query_pkey(3), in host byte order. @throws InvalidArgumentError beyond the table */
  queryPkey(context: number, portNum: number, index: number): number;
  /** Listens for asynchronous events on the event loop of this thread; null stops listening. */
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
  /** Allocates and registers memory, page-aligned and zeroed. deregMr detaches its ArrayBuffer. */
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
  /** ibv_alloc_mw(3). A window of either type is bound by posting BIND_MW. @throws UnsupportedError */
  allocMw(pd: number, type: number): MwInfo;
  /** The current key of the window: a bind changes it when it is posted. */
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
  /** Listens for completion events on the event loop of this thread, and acknowledges them; null stops listening. */
  watchCompChannel(channel: number, listener: CompletionListener | null): void;
  /** Whether waiting on this channel keeps the process alive (at first it does not). */
  refCompChannel(channel: number, keepAlive: boolean): void;
  /** ibv_create_cq(3); channel 0 for none. With wcFlags: ibv_create_cq_ex(3). @throws UnsupportedError */
  createCq(context: number, cqe: number, channel: number, options?: CqOptions): CqInfo;
  /**
   * ibv_resize_cq(3); returns the entries granted. @throws BusyError if it contains more completions, UnsupportedError
   */
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
  /** ibv_query_qp(3): all attributes, because libibverbs treats its mask only as a hint. */
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
  /** ibv_attach_mcast(3): a UD queue pair receives the datagrams to this group. */
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
   * ibv_post_send(3) for the slots start .. start + count - 1 of a work-request ring. Returns how many were accepted.
   * Their running numbers (WC_SEQ) count from 0 at creation and continue through a RESET. If not all were accepted,
   * HDR_ERRNO and HDR_REASON of the ring say why slot start + returned was refused.
   * @throws InvalidHandleError
   */
  postSend(qp: number, ring: number, start: number, count: number): number;
  /** ibv_post_recv(3), in the same way. */
  postRecv(qp: number, ring: number, start: number, count: number): number;
  /** ibv_post_srq_recv(3), in the same way. */
  postSrqRecv(srq: number, ring: number, start: number, count: number): number;
  /**
   * The errno with which postSend would refuse this one slot if the queue had room, or 0; posts nothing. If it is not 0,
   * HDR_ERRNO and HDR_REASON of the ring say why.
   */
  validateSend(qp: number, ring: number, index: number): number;
  /** ibv_poll_cq(3) into the slots start .. start + max - 1; returns the number of completions. */
  pollCq(cq: number, ring: number, start: number, max: number): number;
}

/** Verbs that register, allocate or release memory. */
export const MR_VERBS = [
  'allocMr',
  'regMr',
  'regDmabufMr',
  'reregMr',
  'deregMr',
] as const satisfies readonly (keyof Verbs)[];

/** Verbs of rings: the hot path, and the verbs that create and free rings. */
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
  'setLabels',
  'createGroup',
  'setGroup',
  'destroyGroup',
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

/** Functions that throw UnsupportedError; `reasons` has a clause for each verb that says what is missing. */
export function unsupportedVerbs<K extends keyof Verbs>(reasons: Record<K, string>): Pick<Verbs, K> {
  const entries = Object.entries<string>(reasons).map(([verb, reason]) => [
    verb,
    (): never => {
      throw new UnsupportedError(`${verb}: ${reason}`, { verb, errno: EOPNOTSUPP });
    },
  ]);
  return Object.fromEntries(entries) as Pick<Verbs, K>;
}
