import { EventEmitter } from 'node:events';
import * as C from '../../verbs/constants.ts';
import {
  type CmConnParam,
  type CmEvent,
  ConnectionError,
  IBV_QPS_ERR,
  maskOf,
  type QpAttr,
} from '../../verbs/index.ts';
import { type Access, accessBits } from '../access.ts';
import type { CompletionQueue } from '../completion-queue.ts';
import type { Context } from '../context.ts';
import type { ProtectionDomain } from '../protection-domain.ts';
import type { QueuePair } from '../queue-pair.ts';
import { textOf } from './errors.ts';
import type { Identifier } from './identifier.ts';
import { REPLY_BYTES, REQUEST_BYTES, splitPrivateData, withDescription } from './private-data.ts';
import type { QpResources } from './qp-resources.ts';

const ALL_REMOTE = { remoteRead: true, remoteWrite: true, remoteAtomic: true };

/** Events of a connection. */
export interface CmConnectionEvents {
  /** Either side ended the connection; with an error when the peer disappeared. The queue pair is in ERR. */
  disconnect: [error?: ConnectionError];
  /** The connection was closed. */
  close: [];
  /** The queue pair could not be moved to ERR. As in node:net, thrown without a listener. */
  error: [error: Error];
}

/** The part of CmConnectionOptions that prepare() uses. */
interface PrepareOptions {
  access?: Access;
  prepare?: (connection: CmConnection) => void | Promise<void>;
}

/** The part of CmConnectionOptions that toRts() uses. */
interface PathOptions {
  minRnrTimer?: number;
  responderResources?: number;
  initiatorDepth?: number;
}

/** An rdma_cm connection and its queue pair. Created by connect() or a server. */
export class CmConnection extends EventEmitter<CmConnectionEvents> {
  readonly qp: QueuePair;
  readonly pd: ProtectionDomain;
  readonly context: Context;
  readonly localAddress: string;
  readonly localPort: number;
  readonly remoteAddress: string;
  readonly remotePort: number;
  private readonly id: Identifier;
  private readonly resources: QpResources;
  private data: Uint8Array = new Uint8Array(0);
  private peerParam: CmConnParam | null = null;
  /** Descriptions of the queue pairs, by the local shim and by the peer's shim. */
  private described: Uint8Array | null = null;
  private peerDescribed: Uint8Array | null = null;
  private state: 'connecting' | 'connected' | 'disconnecting' | 'disconnected' = 'connecting';
  private ended = false;
  private readonly onDisconnected: (() => void)[] = [];

  /** @internal Use connect() or createServer(). */
  constructor(id: Identifier, resources: QpResources) {
    super();
    const { local, remote } = id.info();
    this.id = id;
    this.resources = resources;
    this.qp = resources.qp;
    this.pd = resources.pd;
    this.context = resources.context;
    this.localAddress = local.address;
    this.localPort = local.port;
    this.remoteAddress = remote.address;
    this.remotePort = remote.port;
    this.context.attach(this);
    this.qp.onClose(() => this.close());
  }

  /** Completion queue of the queue pair; of its sends only if a recvCq was given. */
  get cq(): CompletionQueue {
    return this.qp.sendCq;
  }

  /** Private data of the peer, padded with zeros to the size of its message. */
  get privateData(): Uint8Array {
    return this.data;
  }

  /** privateData as text, without the padding. */
  get privateText(): string {
    return textOf(this.data);
  }

  /** Parameters of the peer: its queue pair number, READs and atomics, retries. */
  get remoteParam(): Readonly<CmConnParam> | null {
    return this.peerParam;
  }

  /** Whether the connection is established and not yet disconnected. */
  get connected(): boolean {
    return this.state === 'connected';
  }

  /** Whether close() was called. */
  get closed(): boolean {
    return this.ended;
  }

  /**
   * Ends the connection (rdma_disconnect(3)). The queue pair moves to ERR and its posted requests are flushed, so await
   * them first. Resolves when the peer has answered or is known to be gone.
   */
  disconnect(): Promise<void> {
    // Before the connection is established there is no peer to notify.
    if (this.state === 'connecting') this.close();
    if (this.ended || this.state === 'disconnected') return Promise.resolve();
    const done = new Promise<void>((resolve) => this.onDisconnected.push(resolve));
    if (this.state === 'connected') {
      this.state = 'disconnecting';
      this.toErr();
      this.id.cm.disconnect(this.id.handle);
    }
    return done;
  }

  /** Ends the connection without waiting, and closes all objects that were created for it. */
  close(): void {
    if (this.ended) return;
    this.ended = true;
    this.state = 'disconnected';
    this.context.detach(this);
    this.id.destroy();
    for (const callback of this.onDisconnected.splice(0)) callback();
    process.nextTick(() => this.emit('close'));
    this.resources.close();
  }

  /** Lets the process exit while the connection is open. */
  unref(): this {
    this.id.keepAlive(false);
    return this;
  }

  /** Makes the open connection keep the process alive, as it does by default. */
  ref(): this {
    this.id.keepAlive(true);
    return this;
  }

  /** close(), for `using`. */
  [Symbol.dispose](): void {
    this.close();
  }

  /** disconnect(), then close(). */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.disconnect();
    this.close();
  }

  /** @internal RESET -> INIT, then the program's `prepare`. */
  async prepare(options: PrepareOptions): Promise<void> {
    const what = `the connection with ${this.remoteAddress}:${this.remotePort} was not established`;
    this.id.check(what);
    const qpAccessFlags = accessBits(options.access ?? ALL_REMOTE);
    this.modify({ ...this.attrOf(C.IBV_QPS_INIT), qpAccessFlags });
    // This precedes the posting of receives, because the shims negotiate the receives that follow.
    this.described = this.qp.provider.describePeer?.(this.qp.handle) ?? null;
    await options.prepare?.(this);
    this.id.check(what);
    if (this.ended) throw new ConnectionError('the connection was closed before it was established');
  }

  /** @internal INIT -> RTS, once the peer is known. */
  toRts({ minRnrTimer = 12, responderResources, initiatorDepth }: PathOptions): void {
    const { provider, handle } = this.qp;
    provider.namePeer?.(handle, { address: this.remoteAddress, ports: [this.localPort, this.remotePort] });
    provider.setPeer?.(handle, this.peerDescribed);
    // A server is in RTS before the connection manager learns these two from accept().
    const rtr = this.attrOf(C.IBV_QPS_RTR);
    const maxDestRdAtomic = atMost(rtr.maxDestRdAtomic, responderResources);
    this.modify({ ...rtr, minRnrTimer, maxDestRdAtomic });
    const rts = this.attrOf(C.IBV_QPS_RTS);
    this.modify({ ...rts, maxRdAtomic: atMost(rts.maxRdAtomic, initiatorDepth) });
  }

  /** @internal Takes the peer's parameters and private data from its message. */
  setPeer(event: CmEvent): void {
    const { data, description } = splitPrivateData(event.privateData);
    this.data = data;
    this.peerDescribed = description;
    this.peerParam = event.conn ?? null;
  }

  /** @internal Private data of the connection request: the program's, and the description by the local shim. */
  request(data: Uint8Array): Uint8Array {
    return this.withShimDescription(data, REQUEST_BYTES);
  }

  /** @internal Private data of the reply, with a description if the peer has a shim. Called before toRts(). */
  reply(data: Uint8Array): Uint8Array {
    if (this.peerDescribed === null) return data;
    const bytes = this.withShimDescription(data, REPLY_BYTES);
    if (bytes === data) this.peerDescribed = null;
    return bytes;
  }

  private withShimDescription(data: Uint8Array, roomBytes: number): Uint8Array {
    // The connection manager rejects anything other than bytes.
    if (this.described === null || !(data instanceof Uint8Array)) return data;
    return withDescription(data, this.described, roomBytes) ?? data;
  }

  /** @internal Called when the connection is established. */
  begin(): void {
    this.state = 'connected';
    this.id.keepAlive(true);
    this.id.listen((event) => this.onEvent(event));
  }

  private attrOf(qpState: number): QpAttr {
    return this.id.cm.initQpAttr(this.id.handle, qpState).attr;
  }

  private modify(attr: QpAttr): void {
    this.qp.provider.modifyQp(this.qp.handle, attr, maskOf(attr));
  }

  private onEvent(event: CmEvent): void {
    if (event.event === C.RDMA_CM_EVENT_DISCONNECTED && event.status === 0) {
      // The peer waits for this answer.
      this.id.cm.disconnect(this.id.handle);
      this.markDisconnected();
    } else if (
      event.event === C.RDMA_CM_EVENT_DISCONNECTED ||
      // The peer gave up before the last message of the exchange reached it.
      event.event === C.RDMA_CM_EVENT_REJECTED ||
      event.event === C.RDMA_CM_EVENT_DEVICE_REMOVAL
    ) {
      const what = `the connection with ${this.remoteAddress}:${this.remotePort} was lost`;
      this.markDisconnected(this.id.failed(what, event));
    }
  }

  /** Called at the end of the connection: posted requests are flushed. */
  private markDisconnected(error?: ConnectionError): void {
    if (this.state === 'disconnected') return;
    this.state = 'disconnected';
    this.id.keepAlive(false);
    this.toErr();
    // Deferred, so that a program that just received this connection can add its listeners first.
    setImmediate(() => {
      for (const callback of this.onDisconnected.splice(0)) callback();
      this.emit('disconnect', error);
    });
  }

  private toErr(): void {
    try {
      if (!this.qp.closed) this.qp.modify({ qpState: IBV_QPS_ERR });
    } catch (failure) {
      // Nothing will be flushed: without this event, waits for completions would hang.
      process.nextTick(() => this.emit('error', failure as Error));
    }
  }
}

/** The number that the connection manager reports, or the program's if that is lower. */
function atMost(reported = 0, own = reported): number {
  return Math.min(reported, own);
}
