import { EventEmitter } from 'node:events';
import * as C from '../../verbs/constants.ts';
import { type AhAttr, maskOf } from '../../verbs/index.ts';
import type { CompletionQueue } from '../completion-queue.ts';
import type { Context } from '../context.ts';
import type { ProtectionDomain } from '../protection-domain.ts';
import type { QueuePair } from '../queue-pair.ts';
import { textOf } from './errors.ts';
import type { Identifier } from './identifier.ts';
import type { QpResources } from './qp-resources.ts';

/** Address of a peer or a multicast group for datagrams. */
export interface DatagramTarget {
  /** Attributes for pd.createAh(). */
  ah: AhAttr;
  qpNum: number;
  qkey: number;
}

/** A UD queue pair in RTS that belongs to an rdma_cm_id. */
export class DatagramEnd extends EventEmitter<{ close: [] }> {
  readonly qp: QueuePair;
  readonly pd: ProtectionDomain;
  readonly context: Context;
  private readonly resources: QpResources;
  private ended = false;

  /** @internal */
  constructor(resources: QpResources) {
    super();
    this.resources = resources;
    this.qp = resources.qp;
    this.pd = resources.pd;
    this.context = resources.context;
    this.context.attach(this);
    this.qp.onClose(() => this.close());
  }

  /** Completion queue of the queue pair; of its sends only if a recvCq was given. */
  get cq(): CompletionQueue {
    return this.qp.sendCq;
  }

  /** Whether close() was called. */
  get closed(): boolean {
    return this.ended;
  }

  /** Closes all objects that were created for it. */
  close(): void {
    if (this.ended) return;
    this.ended = true;
    this.context.detach(this);
    this.leave();
    process.nextTick(() => this.emit('close'));
    this.resources.close();
  }

  /** close(), for `using`. */
  [Symbol.dispose](): void {
    this.close();
  }

  /** @internal RESET -> RTS with the Q_Key of the identifier's port space. */
  async start(
    id: Identifier,
    options: { prepare?: (end: DatagramEnd) => void | Promise<void> },
  ): Promise<void> {
    const { provider, handle } = this.qp;
    const { attr, mask } = id.cm.initQpAttr(id.handle, C.IBV_QPS_INIT);
    provider.modifyQp(handle, attr, mask);
    for (const next of [{ qpState: C.IBV_QPS_RTR }, { qpState: C.IBV_QPS_RTS, sqPsn: 0 }]) {
      provider.modifyQp(handle, next, maskOf(next));
    }
    await options.prepare?.(this);
    id.check('the queue pair was not created');
  }

  /** Releases objects that must be closed before the queue pair. */
  protected leave(): void {}
}

/** A datagram peer, and a queue pair to reach it. Created by resolveDatagram(). */
export class DatagramPeer extends DatagramEnd {
  readonly remoteAddress: string;
  readonly remotePort: number;
  private target: DatagramTarget | null = null;
  private data: Uint8Array = new Uint8Array(0);
  private readonly id: Identifier;

  /** @internal */
  constructor(id: Identifier, resources: QpResources) {
    super(resources);
    const { remote } = id.info();
    this.remoteAddress = remote.address;
    this.remotePort = remote.port;
    this.id = id;
  }

  /** Address of the peer: create an address handle from `ah`, and name `qpNum` and `qkey` in requests. */
  get remote(): DatagramTarget {
    return this.target as DatagramTarget;
  }

  /** Private data of the peer, padded with zeros to 136 bytes. */
  get privateData(): Uint8Array {
    return this.data;
  }

  /** privateData as text, without the padding. */
  get privateText(): string {
    return textOf(this.data);
  }

  /** @internal */
  setRemote(remote: DatagramTarget, data: Uint8Array): void {
    this.target = remote;
    this.data = data;
  }

  protected override leave(): void {
    this.id.destroy();
  }
}

/** A multicast group member: its queue pair receives datagrams of the group. Created by joinMulticast(). */
export class MulticastMember extends DatagramEnd {
  /** The group's address, as given to joinMulticast(). */
  readonly group: string;
  private readonly id: Identifier;
  private target: DatagramTarget | null = null;

  /** @internal */
  constructor(id: Identifier, resources: QpResources, group: string) {
    super(resources);
    this.id = id;
    this.group = group;
  }

  /** Address of the group: create an address handle from `ah`, and name `qpNum` and `qkey` in requests. */
  get remote(): DatagramTarget {
    return this.target as DatagramTarget;
  }

  /** @internal */
  attach(joined: DatagramTarget): void {
    this.qp.attachMcast(joined.ah.dgid ?? '');
    this.target = joined;
  }

  protected override leave(): void {
    const { id, qp, target: joined } = this;
    if (joined !== null) {
      if (!qp.closed) qp.detachMcast(joined.ah.dgid ?? '');
      id.cm.leaveMulticast(id.handle, { address: this.group, port: 0 });
    }
    id.destroy();
  }
}
