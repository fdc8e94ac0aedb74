/** Queue pairs of a policy's own, which the application never sees: what a policy declares, and posts on them. */
import type { ContextView, QpView } from './views.ts';

/** What a policy asks of a twin: a queue pair of its own beside one of the application. */
export interface TwinOptions {
  /** Sends, and as many receives, that it has room for. */
  depth: number;
  /** Bytes of its buffer, which the peer may read and write. Default 0: none. */
  bufferBytes?: number;
}

/** What a policy asks of a queue pair that is connected to itself. */
export interface LoopbackOptions extends TwinOptions {
  /** Its requests go only as ENABLEs allow. */
  managed?: boolean;
}

/** A queue pair that the shim made for the policy. */
export interface ResourceView {
  readonly context: ContextView;
  /** Handles: what ENABLE and WAIT name. */
  readonly qp: number;
  readonly cq: number;
  readonly qpNum: number;
  /** Its buffer; null: none. */
  readonly buffer: Uint8Array | null;
  /** Places left in its send queue. */
  readonly room: number;
  readonly connected: boolean;
}

/** What the peer must know to connect its twin with this one. */
export interface ResourceAddress {
  qpNum: number;
  /** Where its buffer is; 0: none. */
  bufferAddr: number;
  rkey: number;
}

/** Memory outside the buffers of a resource and its peer. */
export interface ResourceMemory {
  addr: number;
  lkey: number;
  remoteAddr: number;
  rkey: number;
}

/** An internal request. A policy makes one and fills it in again and again. */
export interface ResourceRequest {
  /** IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND, ISO_WR_WAIT or ISO_WR_ENABLE. */
  opcode: number;
  /** Whether it makes a completion, for a WAIT to count. One with a token always does. */
  signaled: boolean;
  /** Message in the resource's own buffer. */
  offsetBytes: number;
  bytes: number;
  /** WRITE and READ: where in the peer's buffer (a loopback is its own peer). */
  remoteOffsetBytes: number;
  /** WRITE and READ: between these instead of the buffers, whose offsets say nothing then. */
  memory?: ResourceMemory | null;
  /** WAIT: handle of a CQ; ENABLE: handle of a managed queue pair; and how many. */
  target: number;
  count: number;
  /** What onInternal is told when it is over, 0 to 2^32 - 1; NO_TOKEN: nothing. */
  token: number;
}

/** Declares resources of one context. A policy may keep it as long as the context is open. */
export interface Resources {
  readonly context: ContextView;
  /**
   * A reliable connection with itself.
   * @throws UnsupportedError for a managed one where there are none, NoResourcesError
   */
  loopback(options: LoopbackOptions): ResourceView;
  /** A datagram queue pair that drops whatever it is sent: where `zeroSends` go. @throws NoResourcesError */
  sink(): ResourceView;
  /** From now on each reliable connection of the application gets one of these; returns the kind, for `twin`. */
  twins(options: TwinOptions): number;
  /** The twin of a queue pair; null: it has none. */
  twin(qp: QpView, kind: number): ResourceView | null;
  /** What is to be told to the peer. */
  address(resource: ResourceView): ResourceAddress;
  /**
   * Connects a twin, on the path that the application's own queue pair has: that one must be in RTR or beyond.
   * @throws InvalidStateError before that
   */
  connect(twin: ResourceView, peer: ResourceAddress): void;
}
