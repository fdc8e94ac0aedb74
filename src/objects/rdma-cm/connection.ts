import { EventEmitter } from 'node:events';
import * as C from '../../verbs/constants.ts';
import { type CmConnParam, type CmEvent, ConnectionError, IBV_QPS_ERR, maskOf } from '../../verbs/index.ts';
import { type Access, accessBits } from '../access.ts';
import type { CompletionQueue } from '../completion-queue.ts';
import type { Context } from '../context.ts';
import type { ProtectionDomain } from '../protection-domain.ts';
import type { QueuePair } from '../queue-pair.ts';
import { CmError, textOf } from './errors.ts';
import type { Identifier } from './identifier.ts';
import { REPLY_BYTES, REQUEST_BYTES, splitPrivateData, withDescription } from './private-data.ts';
import type { QpResources } from './qp-resources.ts';

const ALL_REMOTE = { remoteRead: true, remoteWrite: true, remoteAtomic: true };

/** What a connection emits. */
export interface CmConnectionEvents {
  /** The connection has ended, by either side; with an error when the peer vanished. The queue pair is in ERR. */
  disconnect: [error?: ConnectionError];
  /** It was closed. */
  close: [];
  /** The queue pair could not be moved to ERR; as with node:net, thrown when nobody listens. */
  error: [error: Error];
}

/** The part of CmConnectionOptions that prepare() uses. */
interface PrepareOptions {
  access?: Access;
  prepare?: (connection: CmConnection) => void | Promise<void>;
}

/** A connection of rdma_cm and its queue pair. Made by connect() or a server. */
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
  /** What the shim below says of the queue pair, and what the peer's said of its own. */
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

  /** Completions of the queue pair: all of them, unless you gave a recvCq. */
  get cq(): CompletionQueue {
    return this.qp.sendCq;
  }

  /** What the peer sent along, padded with zeros to the room of its message. */
  get privateData(): Uint8Array {
    return this.data;
  }

  /** privateData as text, without the padding. */
  get privateText(): string {
    return textOf(this.data);
  }

  /** What the peer offered: its queue pair's number, READs and atomics, retries. */
  get remoteParam(): Readonly<CmConnParam> | null {
    return this.peerParam;
  }

  /** Whether it is established and not yet disconnected. */
  get connected(): boolean {
    return this.state === 'connected';
  }

  /** Whether close() was called. */
  get closed(): boolean {
    return this.ended;
  }

  /**
   * Ends the connection (rdma_disconnect(3)): the queue pair goes to ERR, and what is posted is flushed, so
   * await what you have posted before. Resolves when the peer has answered, or is known to be gone.
   */
  disconnect(): Promise<void> {
    // What is not made yet has no peer to say goodbye to.
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

  /** Ends the connection, without waiting, and closes all that was made for it. */
  close(): void {
    if (this.ended) return;
    this.ended = true;
    this.state = 'disconnected';
    this.context.detach(this);
    this.id.destroy();
    for (const goodbye of this.onDisconnected.splice(0)) goodbye();
    process.nextTick(() => this.emit('close'));
    this.resources.close();
  }

  /** The connection no longer keeps the process alive by itself. */
  unref(): this {
    this.id.keepAlive(false);
    return this;
  }

  /** Whether it keeps the process alive while it is open. */
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

  /** @internal RESET -> INIT, and what the program does then. */
  async prepare(options: PrepareOptions): Promise<void> {
    const what = `the connection with ${this.remoteAddress}:${this.remotePort} was not made`;
    this.id.check(what);
    this.move(C.IBV_QPS_INIT, { qpAccessFlags: accessBits(options.access ?? ALL_REMOTE) });
    // Before receives are posted: two shims speak of those that come after it.
    this.described = this.qp.provider.describePeer?.(this.qp.handle) ?? null;
    await options.prepare?.(this);
    this.id.check(what);
    if (this.ended) throw new ConnectionError('the connection was closed before it was made');
  }

  /** @internal INIT -> RTS: the peer is known. */
  toRts({ minRnrTimer = 12 }: { minRnrTimer?: number }): void {
    this.qp.provider.setPeer?.(this.qp.handle, this.peerDescribed);
    this.move(C.IBV_QPS_RTR, { minRnrTimer });
    this.move(C.IBV_QPS_RTS, {});
  }

  /** @internal */
  setPeer(event: CmEvent): void {
    const { data, description } = splitPrivateData(event.privateData);
    this.data = data;
    this.peerDescribed = description;
    this.peerParam = event.conn ?? null;
  }

  /** @internal What the first message takes along: the program's data, and what the shim below says. */
  request(data: Uint8Array): Uint8Array {
    return this.withShimDescription(data, REQUEST_BYTES);
  }

  /** @internal The same of the answer; without a shim at the other end it says nothing. Before toRts(). */
  reply(data: Uint8Array): Uint8Array {
    if (this.peerDescribed === null) return data;
    const bytes = this.withShimDescription(data, REPLY_BYTES);
    if (bytes === data) this.peerDescribed = null;
    return bytes;
  }

  private withShimDescription(data: Uint8Array, roomBytes: number): Uint8Array {
    // What is no bytes at all, the connection manager refuses.
    if (this.described === null || !(data instanceof Uint8Array)) return data;
    return withDescription(data, this.described, roomBytes) ?? data;
  }

  /** @internal It is made. */
  begin(): void {
    this.state = 'connected';
    this.id.keepAlive(true);
    this.id.listen((event) => this.onEvent(event));
  }

  private move(qpState: number, changes: object): void {
    const attr = { ...this.id.cm.initQpAttr(this.id.handle, qpState).attr, ...changes };
    this.qp.provider.modifyQp(this.qp.handle, attr, maskOf(attr));
  }

  private onEvent(event: CmEvent): void {
    if (event.event === C.RDMA_CM_EVENT_DISCONNECTED && event.status === 0) {
      // The peer waits for the answer.
      this.id.cm.disconnect(this.id.handle);
      this.markDisconnected();
    } else if (
      event.event === C.RDMA_CM_EVENT_DISCONNECTED ||
      event.event === C.RDMA_CM_EVENT_DEVICE_REMOVAL
    ) {
      const what = `the connection with ${this.remoteAddress}:${this.remotePort} broke`;
      this.markDisconnected(new CmError(what, event, this.id.portSpace));
    }
  }

  /** It has ended: everything posted is flushed. */
  private markDisconnected(error?: ConnectionError): void {
    if (this.state === 'disconnected') return;
    this.state = 'disconnected';
    this.id.keepAlive(false);
    this.toErr();
    // Not before whoever is about to be given this connection has had the chance to listen.
    setImmediate(() => {
      for (const goodbye of this.onDisconnected.splice(0)) goodbye();
      this.emit('disconnect', error);
    });
  }

  private toErr(): void {
    try {
      if (!this.qp.closed) this.qp.modify({ qpState: IBV_QPS_ERR });
    } catch (failure) {
      // Nothing will be flushed: whoever waits for that must not be left waiting.
      process.nextTick(() => this.emit('error', failure as Error));
    }
  }
}
