/** A policy's internal queue pairs, which the application never sees: their declarations, and posts on them. */
import type { ContextView, QpView } from './views.ts';

/** Options of a queue pair of the policy's own. */
export interface ResourceOptions {
  /** Slots of its send queue, and of its receive queue. */
  depth: number;
  /** Bytes of its buffer. Default 0, for none. */
  bufferBytes?: number;
}

/** Options of a twin: a queue pair that the policy has next to one of the application. */
export interface TwinOptions extends ResourceOptions {
  /** Whether requests of the peer's twin may name the buffer. Default false. */
  shared?: boolean;
  /**
   * The remote access (IBV_ACCESS_*) that the peer has through the twin. Default: what the application's queue pair
   * grants, which pieces of its requests must not exceed.
   */
  access?: number;
}

/** Options of a queue pair that is connected to itself. */
export interface LoopbackOptions extends ResourceOptions {
  /** Whether its requests go only as ENABLEs allow. */
  managed?: boolean;
}

/** A queue pair that the shim made for the policy. */
export interface ResourceView {
  readonly context: ContextView;
  /** Handles, which ENABLE and WAIT name. */
  readonly qp: number;
  readonly cq: number;
  readonly qpNum: number;
  /** Its buffer; null if it has none. */
  readonly buffer: Uint8Array | null;
  /** Free slots of its send queue. */
  readonly room: number;
  /** Whether it may post: a twin is connected with the peer's, and has not failed. */
  readonly connected: boolean;
}

/** Memory outside the buffers of a resource and its peer. */
export interface ResourceMemory {
  addr: number;
  lkey: number;
  remoteAddr: number;
  rkey: number;
}

/** An internal request. A policy makes one object and fills it in again for each post. */
export interface ResourceRequest {
  /** IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND, ISO_WR_WAIT or ISO_WR_ENABLE. */
  opcode: number;
  /** Whether it generates a completion, which a WAIT can count. A request with a token always does. */
  signaled: boolean;
  /** The message, in the resource's own buffer. */
  offsetBytes: number;
  bytes: number;
  /** WRITE and READ: offset in the peer's buffer (a loopback is its own peer). */
  remoteOffsetBytes: number;
  /** WRITE and READ: memory to use instead of the buffers, in which case the offsets are ignored. */
  memory?: ResourceMemory | null;
  /**
   * The handle of a CQ and a number of completions for WAIT; the handle of a managed queue pair and a number of
   * requests for ENABLE.
   */
  target: number;
  count: number;
  /** Passed to onInternal when the request has ended, 0 to 2^32 - 1; nothing is passed for NO_TOKEN. */
  token: number;
}

/** Declares resources of one context. A policy may keep it while the context is open. */
export interface Resources {
  readonly context: ContextView;
  /**
   * A reliable connection with itself.
   * @throws UnsupportedError for a managed one if the device does not support them, NoResourcesError
   */
  loopback(options: LoopbackOptions): ResourceView;
  /** A datagram queue pair that drops all datagrams: the destination of `zeroSends`. @throws NoResourcesError */
  sink(): ResourceView;
  /**
   * From now on, each reliable connection of the application gets a twin with these options; returns the kind, for
   * `twin`. The shim connects it if the peer's policy has the same name and a twin of the same kind.
   */
  twins(options: TwinOptions): number;
  /** The twin of a queue pair; null if it has none. */
  twin(qp: QpView, kind: number): ResourceView | null;
}
