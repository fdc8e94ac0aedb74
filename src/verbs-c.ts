/**
 * `isoverbs/verbs`: the flat verbs under their C names, for programmers who know the man pages. Handles are
 * integers. They are bound to one provider: that of openDevice() without arguments (ISOVERBS_DEVICE, otherwise real
 * devices, otherwise the simulated ones) with the policies of the process, or the provider that iso_use_provider() set.
 *
 * Errors are exceptions (docs/errors.md), not return values, except in ibv_post_send, ibv_post_recv and ibv_poll_cq, which
 * return counts. Requests and completions are in rings, which are created with `new SendBatch(iso_provider(), {
 * capacity })`, RecvBatch or WcBatch; pass `batch.ring` to the functions. Names that begin with iso_ exist only in
 * isoverbs. Batches also replace ibv_wr_start(3) and related functions: a queue pair created with `extended` posts them
 * through ibv_wr_*. Unsupported verbs (ibv_create_flow ...) throw an error that names an alternative.
 */
import { defaultProvider } from './open.ts';
import {
  type DeviceInfo,
  InvalidArgumentError,
  type OpenOptions,
  type Provider,
  shown,
  type Verbs,
  wcStatusName,
} from './verbs/index.ts';

export * from './verbs/index.ts';
export * from './verbs-refused.ts';

let bound: Provider | null = null;

/** The provider behind these functions. */
export function iso_provider(): Provider {
  bound ??= defaultProvider();
  return bound;
}

/** Binds these functions to a provider; after null, the next call chooses one. Handles stay bound to their provider. */
export function iso_use_provider(provider: Provider | null): void {
  bound = provider;
}

/** A verb of the provider that is bound at the time of the call. */
function verb<K extends keyof Verbs>(name: K): Verbs[K] {
  const call = (...args: unknown[]) => (iso_provider()[name] as (...args: unknown[]) => unknown)(...args);
  return call as Verbs[K];
}

/** ibv_get_device_list(3). */
export const ibv_get_device_list = verb('getDeviceList');

/** ibv_open_device(3), by name or by an entry of the list. */
export function ibv_open_device(device: string | DeviceInfo, options?: OpenOptions): number {
  return iso_provider().openDevice(nameOf('ibv_open_device', device), options);
}

/** @throws InvalidArgumentError */
function nameOf(verb: string, device: string | DeviceInfo): string {
  const name = typeof device === 'string' ? device : device?.name;
  if (typeof name === 'string') return name;
  throw new InvalidArgumentError(
    `${verb}: the device must be a name or an entry of ibv_get_device_list(), got ${shown(device)}`,
  );
}

/** ibv_get_device_name(3). */
export function ibv_get_device_name(device: DeviceInfo): string {
  return nameOf('ibv_get_device_name', device);
}

/** Changes labels of a context; returns all of them. */
export const iso_set_labels = verb('setLabels');
/** Creates a group of queue pairs (context, name, weight), or joins that of another context of the tenant. */
export const iso_create_group = verb('createGroup');
/** Sets the weight of a group (context, name, weight) that this context has created. */
export const iso_set_group = verb('setGroup');
/** Gives up a group (context, name) that this context has created. */
export const iso_destroy_group = verb('destroyGroup');
/** ibv_close_device(3). */
export const ibv_close_device = verb('closeDevice');
/** ibv_query_device(3). */
export const ibv_query_device = verb('queryDevice');
/** ibv_query_device_ex(3). */
export const ibv_query_device_ex = verb('queryDeviceEx');
/** ibv_query_rt_values_ex(3). */
export const ibv_query_rt_values_ex = verb('queryRtValues');
/** ibv_query_port(3). */
export const ibv_query_port = verb('queryPort');
/** ibv_query_gid(3). */
export const ibv_query_gid = verb('queryGid');
/** ibv_query_pkey(3), in host byte order. */
export const ibv_query_pkey = verb('queryPkey');
/** In place of ibv_get_async_event(3): calls back for each event, and acknowledges it. */
export const iso_watch_async_events = verb('watchAsyncEvents');
/** Whether listening for asynchronous events keeps the process alive. */
export const iso_ref_async_events = verb('refAsyncEvents');
/** ibv_open_xrcd(3). */
export const ibv_open_xrcd = verb('openXrcd');
/** ibv_close_xrcd(3). */
export const ibv_close_xrcd = verb('closeXrcd');
/** ibv_alloc_pd(3). */
export const ibv_alloc_pd = verb('allocPd');
/** ibv_dealloc_pd(3). */
export const ibv_dealloc_pd = verb('deallocPd');
/** ibv_reg_mr(3) over (memory, byteOffset, lengthBytes). */
export const ibv_reg_mr = verb('regMr');
/** ibv_reg_dmabuf_mr(3). */
export const ibv_reg_dmabuf_mr = verb('regDmabufMr');
/** ibv_rereg_mr(3). */
export const ibv_rereg_mr = verb('reregMr');
/** Allocates memory and registers it. */
export const iso_alloc_mr = verb('allocMr');
/** ibv_dereg_mr(3). */
export const ibv_dereg_mr = verb('deregMr');
/** ibv_alloc_mw(3). */
export const ibv_alloc_mw = verb('allocMw');
/** The current key of a memory window. */
export const iso_query_mw = verb('queryMw');
/** ibv_dealloc_mw(3). */
export const ibv_dealloc_mw = verb('deallocMw');
/** ibv_create_ah(3). */
export const ibv_create_ah = verb('createAh');
/** ibv_destroy_ah(3). */
export const ibv_destroy_ah = verb('destroyAh');
/** ibv_create_comp_channel(3). */
export const ibv_create_comp_channel = verb('createCompChannel');
/** ibv_destroy_comp_channel(3). */
export const ibv_destroy_comp_channel = verb('destroyCompChannel');
/** In place of ibv_get_cq_event(3): calls back for each event, and acknowledges it. */
export const iso_watch_comp_channel = verb('watchCompChannel');
/** Whether the watched channel keeps the process alive. */
export const iso_ref_comp_channel = verb('refCompChannel');
/** ibv_create_cq(3); channel 0 for none. */
export const ibv_create_cq = verb('createCq');
/** ibv_resize_cq(3). */
export const ibv_resize_cq = verb('resizeCq');
/** ibv_modify_cq(3). */
export const ibv_modify_cq = verb('modifyCq');
/** ibv_destroy_cq(3). */
export const ibv_destroy_cq = verb('destroyCq');
/** ibv_req_notify_cq(3). */
export const ibv_req_notify_cq = verb('reqNotifyCq');
/** ibv_create_srq(3), ibv_create_srq_ex(3). */
export const ibv_create_srq = verb('createSrq');
/** ibv_modify_srq(3). */
export const ibv_modify_srq = verb('modifySrq');
/** ibv_query_srq(3). */
export const ibv_query_srq = verb('querySrq');
/** ibv_destroy_srq(3). */
export const ibv_destroy_srq = verb('destroySrq');
/** ibv_create_qp(3). */
export const ibv_create_qp = verb('createQp');
/** ibv_modify_qp(3). */
export const ibv_modify_qp = verb('modifyQp');
/** ibv_query_qp(3): all attributes. */
export const ibv_query_qp = verb('queryQp');
/** ibv_destroy_qp(3). */
export const ibv_destroy_qp = verb('destroyQp');
/** ibv_modify_qp_rate_limit(3). */
export const ibv_modify_qp_rate_limit = verb('modifyQpRateLimit');
/** ibv_query_qp_data_in_order(3). */
export const ibv_query_qp_data_in_order = verb('queryQpDataInOrder');
/** ibv_query_ece(3). */
export const ibv_query_ece = verb('queryEce');
/** ibv_set_ece(3). */
export const ibv_set_ece = verb('setEce');
/** ibv_attach_mcast(3). */
export const ibv_attach_mcast = verb('attachMcast');
/** ibv_detach_mcast(3). */
export const ibv_detach_mcast = verb('detachMcast');
/** Memory for work requests; SendBatch and RecvBatch do it for you. */
export const iso_create_wr_ring = verb('createWrRing');
/** Memory for completions; WcBatch does it for you. */
export const iso_create_wc_ring = verb('createWcRing');
/** Frees a ring of either kind. */
export const iso_destroy_ring = verb('destroyRing');
/** The errno with which ibv_post_send would refuse one slot, or 0; posts nothing. */
export const iso_validate_send = verb('validateSend');

/** ibv_post_send(3): returns how many of the slots were accepted; the ring's header says why the next one was not. */
export function ibv_post_send(qp: number, ring: number, start: number, count: number): number {
  return iso_provider().postSend(qp, ring, start, count);
}

/** ibv_post_recv(3), in the same way. */
export function ibv_post_recv(qp: number, ring: number, start: number, count: number): number {
  return iso_provider().postRecv(qp, ring, start, count);
}

/** ibv_post_srq_recv(3), in the same way. */
export function ibv_post_srq_recv(srq: number, ring: number, start: number, count: number): number {
  return iso_provider().postSrqRecv(srq, ring, start, count);
}

/** ibv_poll_cq(3) into the slots start .. start + max - 1; returns the number of completions. */
export function ibv_poll_cq(cq: number, ring: number, start: number, max: number): number {
  return iso_provider().pollCq(cq, ring, start, max);
}

/** ibv_wc_status_str(3): 'WR_FLUSH_ERR' for IBV_WC_WR_FLUSH_ERR. */
export function ibv_wc_status_str(status: number): string {
  return wcStatusName(status);
}
