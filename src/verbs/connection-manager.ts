/** librdmacm, flat: the second half of the seam. */
import type { AhAttr, QpAttr } from './types.ts';

/** An event of the connection manager (rdma_cm_event), acknowledged when the listener returns. */
export interface CmEvent {
  /** RDMA_CM_EVENT_* */
  event: number;
  /** The identifier concerned, which is a new one in a CONNECT_REQUEST. */
  id: number;
  /** In a CONNECT_REQUEST, the listening identifier; otherwise 0. */
  listenId: number;
  /** Negative errno; for REJECTED the InfiniBand number of the reason (28: rejected by the application). */
  status: number;
  /** The private data as received, padded with zeros: 56 bytes for requests, 196 for answers ... */
  privateData: Uint8Array;
  /** In CONNECT_REQUEST and CONNECT_RESPONSE of RDMA_PS_TCP: the peer's parameters. */
  conn?: CmConnParam;
  /**
   * In ESTABLISHED of RDMA_PS_UDP at the connecting side, and in MULTICAST_JOIN: how to reach the peer or the group.
   */
  ud?: { ah: AhAttr; qpNum: number; qkey: number };
}

/** rdma_conn_param. */
export interface CmConnParam {
  /** At most 56 bytes in connect (RDMA_PS_UDP: 180), and 196 in accept (RDMA_PS_UDP: 136). */
  privateData?: Uint8Array;
  /** Default RDMA_MAX_RESP_RES: as many as the device supports; in accept, as many as the peer requests. */
  responderResources?: number;
  /** Default RDMA_MAX_INIT_DEPTH, likewise. */
  initiatorDepth?: number;
  flowControl?: number;
  /** 0 to 7, default 7. The connecting side decides. */
  retryCount?: number;
  /** 0 to 7, default 7 */
  rnrRetryCount?: number;
  srq?: boolean;
  /** Required, except to connect in RDMA_PS_UDP. */
  qpNum?: number;
}

/** A numeric IPv4 or IPv6 address as text; link-local ones with the interface: fe80::1%eth0. */
export interface CmAddress {
  address: string;
  port: number;
}

/** The device and addresses to which an identifier is bound. */
export interface CmIdInfo {
  /** Name for openDevice; '' until an address is resolved or bound to a device. */
  deviceName: string;
  portNum: number;
  /** While an address is unknown: port 0 and the address '' (simulated devices: '0.0.0.0'). */
  local: CmAddress;
  remote: CmAddress;
}

/**
 * librdmacm, flat: identifiers are handles, and answers are events. It does not modify queue pairs: the caller creates one
 * (createQp), calls `initQpAttr` for each transition, and passes its number in the parameters, as with an rdma_cm_id
 * without a queue pair (rdma_create_qp(3), NOTES of rdma_init_qp_attr).
 */
export interface ConnectionManager {
  /** rdma_create_event_channel(3). @throws NoDeviceError if the kernel has no rdma_cm or no device */
  createEventChannel(): number;
  /** Also destroys unused identifiers of requests. @throws BusyError while there are other identifiers */
  destroyEventChannel(channel: number): void;
  /** Listens for events on the event loop of this thread, and acknowledges them; null stops listening. */
  watchEventChannel(channel: number, listener: ((event: CmEvent) => void) | null): void;
  /** Whether listening keeps the process alive (at first it does not). */
  refEventChannel(channel: number, keepAlive: boolean): void;
  /** rdma_create_id(3); RDMA_PS_TCP or RDMA_PS_UDP. */
  createId(channel: number, portSpace: number): number;
  /** rdma_destroy_id(3) */
  destroyId(id: number): void;
  /** The device and addresses to which an identifier is bound. */
  queryId(id: number): CmIdInfo;
  /** rdma_bind_addr(3). @throws ConnectionError (EADDRINUSE), NoDeviceError if no device has the address */
  bindAddr(id: number, local: CmAddress): void;
  /** rdma_resolve_addr(3): raises ADDR_RESOLVED or ADDR_ERROR. */
  resolveAddr(id: number, local: CmAddress | null, remote: CmAddress, timeoutMs: number): void;
  /** rdma_resolve_route(3): raises ROUTE_RESOLVED or ROUTE_ERROR. */
  resolveRoute(id: number, timeoutMs: number): void;
  /** rdma_listen(3): raises CONNECT_REQUEST for each request. */
  listen(id: number, backlog: number): void;
  /**
   * rdma_connect(3): raises CONNECT_RESPONSE or REJECTED, or with RDMA_PS_UDP: ESTABLISHED or UNREACHABLE (status 2:
   * rejected). Without an answer, UNREACHABLE is raised in both.
   */
  connect(id: number, param: CmConnParam): void;
  /** rdma_establish(3): called after CONNECT_RESPONSE, when the queue pair is in RTS. */
  establish(id: number): void;
  /**
   * rdma_accept(3): called when the queue pair is in RTS; raises ESTABLISHED when the other side is ready too. With
   * RDMA_PS_UDP, privateData, qpNum and qkey answer the request (librdmacm supports only RDMA_UDP_QKEY).
   */
  accept(id: number, param: CmConnParam & { qkey?: number }): void;
  /** rdma_reject(3): at most 148 bytes (RDMA_PS_UDP: 136). */
  reject(id: number, privateData: Uint8Array): void;
  /** rdma_disconnect(3): raises DISCONNECTED at the peer, and at this side when the peer has called it too. */
  disconnect(id: number): void;
  /** rdma_notify(3): reports IBV_EVENT_COMM_EST. */
  notify(id: number, event: number): void;
  /**
   * rdma_init_qp_attr(3): the attributes of modifyQp for INIT, RTR or RTS. RTR and RTS are known after a request or a
   * response. Before that, INIT allows no remote access, so it must be queried and set again afterwards.
   */
  initQpAttr(id: number, qpState: number): { attr: QpAttr; mask: number };
  /**
   * rdma_join_multicast(3): raises MULTICAST_JOIN or MULTICAST_ERROR; then call attachMcast. The group's port is
   * ignored.
   */
  joinMulticast(id: number, group: CmAddress): void;
  /** rdma_leave_multicast(3) */
  leaveMulticast(id: number, group: CmAddress): void;
}
