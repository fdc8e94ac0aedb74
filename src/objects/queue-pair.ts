import * as C from '../verbs/constants.ts';
import { gidToBytes } from '../verbs/gid.ts';
import {
  type AhAttr,
  type Ece,
  type GidEntry,
  InvalidArgumentError,
  InvalidHandleError,
  InvalidStateError,
  maskOf,
  type PortAttr,
  QP_ATTR_FIELDS,
  type QpAttr,
  type QpCap,
  type QpInitAttr,
  type QpRateLimit,
  REASON_STATE,
  type RecvBatch,
  requireKnown,
  type SendBatch,
  stateName,
} from '../verbs/index.ts';
import { accessBits } from './access.ts';
import type { EventsOf, QpEvent } from './async-events.ts';
import { type Completion, expectSuccess } from './completion.ts';
import type { CompletionQueue } from './completion-queue.ts';
import type { Context } from './context.ts';
import { EmittingResource, type EventSource } from './emitting-resource.ts';
import { newTag, randomBelow } from './inbox.ts';
import { postError, rangeError } from './post-error.ts';
import type { ProtectionDomain } from './protection-domain.ts';
import {
  type AnyOptions,
  createQp,
  namedObjects,
  parentsOf,
  type Queues,
  qpLabelAttr,
} from './qp-creation.ts';
import { drainQp, sendQueueDrained } from './qp-drain.ts';
import type {
  ConnectToOptions,
  Endpoint,
  InitOptions,
  PathOptions,
  QpDrainOptions,
  QpState,
  QpType,
  QueuePairLabels,
  RtrOptions,
  RtsOptions,
  SqdOptions,
} from './qp-options.ts';
import { packRecv, packSend, type RecvRequest, type SendRequest, wrOpcode } from './request.ts';
import type { SharedReceiveQueue } from './shared-receive-queue.ts';
import { untilAborted } from './support/abort.ts';
import type { XrcDomain } from './xrc-domain.ts';

export type * from './qp-options.ts';

const DEFAULT_RD_ATOMIC = 16;
const DEFAULT_QKEY = 0x11111111;
const ALL_REMOTE = { remoteRead: true, remoteWrite: true, remoteAtomic: true };

/**
 * A queue pair (ibv_create_qp(3)), created by pd.createQp(). It emits its asynchronous events by name: 'qpFatal',
 * 'qpReqErr', 'qpAccessErr', 'commEst', 'sqDrained', 'qpLastWqeReached' ... (QpEvent).
 */
export class QueuePair extends EmittingResource<EventsOf<QpEvent>> {
  /** @internal */
  readonly kind = 'QueuePair';
  readonly context: Context;
  readonly type: QpType;
  readonly qpNum: number;
  /** The shared queue that supplies its receives, or null. */
  readonly srq: SharedReceiveQueue | null;
  /** Capacities that the device granted. */
  readonly cap: QpCap;
  /** First packet sequence number of the send queue, chosen at random. */
  readonly psn: number;
  private readonly qp: number;
  private readonly owner: ProtectionDomain | XrcDomain;
  private readonly queues: Queues;
  private ownQkey = DEFAULT_QKEY;
  private lastSend: SendBatch | null = null;
  private lastRecv: RecvBatch | null = null;
  private single: SendBatch | null = null;
  private singleRecv: RecvBatch | null = null;
  /** State of the last modify(); an error changes the real state without notice. */
  private lastState: number = C.IBV_QPS_RESET;
  /** Local port and GID at the first query, by 'port/index'. */
  private readonly paths = new Map<string, { port: PortAttr; gid: GidEntry }>();
  private draining: Promise<Completion[]> | null = null;
  private groups: { gid: string; lid: number }[] | null = null;

  /** @internal Use pd.createQp() or xrcd.createQp(). */
  constructor(owner: ProtectionDomain | XrcDomain, options: AnyOptions) {
    const { context } = owner;
    const { queues, srq } = namedObjects(context, options);
    const info = createQp(owner, options, queues, srq);
    super({
      provider: owner.provider,
      handle: info.handle,
      label: `queue pair ${info.qpNum} of ${context.name}`,
      parents: parentsOf(owner, queues, srq),
    });
    this.context = context;
    this.owner = owner;
    this.queues = queues;
    this.srq = srq;
    this.type = options.type ?? 'RC';
    this.qp = info.handle;
    this.qpNum = info.qpNum;
    this.cap = info.cap;
    this.psn = randomBelow(this.provider, 1 << 24);
    context.addEventSubject(this.qp, this);
  }

  /** Its protection domain. @throws InvalidArgumentError for XRC_RECV, which has an XRC domain instead */
  get pd(): ProtectionDomain {
    if (this.owner.kind === 'ProtectionDomain') return this.owner;
    throw new InvalidArgumentError(`${this.label} is of type XRC_RECV: it has an XRC domain, not a pd`);
  }

  /** Completion queue of its sends. @throws InvalidArgumentError for XRC_RECV, which has none */
  get sendCq(): CompletionQueue {
    return this.queuePair().send;
  }

  /** Completion queue of its receives. @throws InvalidArgumentError for XRC_RECV: XRC SRQs name the queue */
  get recvCq(): CompletionQueue {
    return this.queuePair().recv;
  }

  /** Datagrams: the Q_Key that senders must name (set by toInit()). */
  get qkey(): number {
    return this.ownQkey;
  }

  /** ibv_modify_qp(3) with a mask of the given fields. @throws InvalidStateError naming the wrong attributes */
  modify(attr: QpAttr): void {
    requireKnown('modify', attr, QP_ATTR_FIELDS);
    this.provider.modifyQp(this.handle, attr, maskOf(attr));
    this.lastState = attr.qpState ?? this.lastState;
    if (attr.qpState !== C.IBV_QPS_RESET) return;
    this.paths.clear();
    this.abandon(() => new InvalidStateError(`${this.label} was reset during a wait for its completion`));
  }

  /**
   * Changes labels of the queue pair, in any state. Policies act on them from their next decision on.
   * @throws InvalidArgumentError for a label that is wrong; then none changes
   */
  setLabels(change: QueuePairLabels): void {
    const { handle } = this;
    const labels = qpLabelAttr('setLabels', change);
    const mask = maskOf(labels);
    if (mask !== 0) this.provider.modifyQp(handle, labels, mask);
  }

  /** ibv_query_qp(3). */
  query(): { attr: QpAttr; init: QpInitAttr } {
    return this.provider.queryQp(this.handle);
  }

  /** Its state, queried from the device, because an error moves a queue pair to 'ERR' without notice. */
  get state(): QpState {
    return stateName(this.query().attr.qpState ?? 0) as QpState;
  }

  /** The facts that the peer requires to connect to this queue pair. */
  endpoint(options: PathOptions = {}): Endpoint {
    const { portNum = 1, gidIndex } = options;
    const { port, gid } = this.localPath(portNum, gidIndex);
    const endpoint = { qpNum: this.qpNum, psn: this.psn, gid: gid.gid, lid: port.lid, mtu: port.activeMtu };
    if (this.type === 'UD') return { ...endpoint, qkey: this.ownQkey };
    const described = this.provider.describePeer?.(this.handle) ?? null;
    return described === null ? endpoint : { ...endpoint, shim: Buffer.from(described).toString('base64') };
  }

  /** RESET -> INIT: from this state on, receives can be posted. */
  toInit(options: InitOptions = {}): void {
    const { portNum = 1, pkeyIndex = 0, access = ALL_REMOTE, qkey = DEFAULT_QKEY } = options;
    const common: QpAttr = { qpState: C.IBV_QPS_INIT, portNum, pkeyIndex };
    if (this.type === 'UD') this.modify({ ...common, qkey });
    else this.modify({ ...common, qpAccessFlags: accessBits(access) });
    this.ownQkey = qkey;
  }

  /** INIT -> RTR: connects to `remote` (omitted for datagrams), and the queue pair receives. */
  toRtr(remote?: Endpoint, options: RtrOptions = {}): void {
    if (this.type === 'UD') {
      this.modify({ qpState: C.IBV_QPS_RTR });
      return;
    }
    if (remote === undefined)
      throw new InvalidArgumentError(`toRtr: ${this.label} requires a remote endpoint`);
    const { shim } = remote;
    this.provider.setPeer?.(this.handle, shim === undefined ? null : Buffer.from(shim, 'base64'));
    const { portNum = 1, minRnrTimer = 12 } = options;
    const active = this.localPath(portNum, options.gidIndex).port.activeMtu;
    const attr: QpAttr = {
      qpState: C.IBV_QPS_RTR,
      pathMtu: options.mtu ?? Math.min(active, remote.mtu ?? active),
      destQpNum: remote.qpNum,
      rqPsn: remote.psn,
      ah: this.path(remote, options),
    };
    if (this.type === 'RC' || this.type === 'XRC_RECV') {
      const { maxQpRdAtom } = this.context.queryDevice();
      attr.maxDestRdAtomic = options.maxDestRdAtomic ?? Math.min(maxQpRdAtom, DEFAULT_RD_ATOMIC);
      attr.minRnrTimer = minRnrTimer;
    }
    this.modify(attr);
  }

  /** RTR -> RTS: the queue pair sends. */
  toRts(options: RtsOptions = {}): void {
    const { timeout = 14, retryCnt = 6, rnrRetry = 7 } = options;
    const attr: QpAttr = { qpState: C.IBV_QPS_RTS, sqPsn: this.psn };
    if (this.type === 'XRC_RECV') attr.timeout = timeout;
    if (this.type === 'RC' || this.type === 'XRC_SEND') {
      const { maxQpInitRdAtom } = this.context.queryDevice();
      attr.maxRdAtomic = options.maxRdAtomic ?? Math.min(maxQpInitRdAtom, DEFAULT_RD_ATOMIC);
      Object.assign(attr, { timeout, retryCnt, rnrRetry });
    }
    this.modify(attr);
  }

  /** RESET or INIT -> RTS, connected to `remote`. If the peer sends early, post the receives after toInit(). */
  connectTo(remote: Endpoint, options: ConnectToOptions = {}): void {
    if (this.type === 'UD') {
      throw new InvalidArgumentError(
        `connectTo: ${this.label} is UD and has no peer; use start(), and name the receiver in each request`,
      );
    }
    if (this.lastState === C.IBV_QPS_RESET) this.toInit(options);
    this.toRtr(remote, options);
    this.toRts(options);
  }

  /** Datagrams: RESET or INIT -> RTS. The queue pair sends to any receiver, and receives from senders that know its Q_Key. */
  start(options: InitOptions = {}): void {
    if (this.type !== 'UD') throw new InvalidArgumentError(`start: ${this.label} is ${this.type}, not UD`);
    if (this.lastState === C.IBV_QPS_RESET) this.toInit(options);
    this.toRtr();
    this.toRts();
  }

  /**
   * RTS -> SQD: new requests are queued but not started. Resolves when the started ones are done (SQ_DRAINED).
   * Attributes can then be changed, and resume() continues.
   * @throws InvalidStateError when the queue pair fails during the drain
   */
  async toSqd(options: SqdOptions = {}): Promise<void> {
    const { notify = true } = options;
    if (notify) await sendQueueDrained(this);
    else this.modify({ qpState: C.IBV_QPS_SQD });
  }

  /** SQD -> RTS, for datagrams and UC also SQE -> RTS: sending continues. */
  resume(): void {
    this.modify({ qpState: C.IBV_QPS_RTS });
  }

  /** Any state except RESET -> ERR: posted requests complete with WR_FLUSH_ERR. @throws InvalidStateError */
  toErr(): void {
    this.modify({ qpState: C.IBV_QPS_ERR });
  }

  /** Any state -> RESET: posted requests are discarded without completions. */
  reset(): void {
    this.modify({ qpState: C.IBV_QPS_RESET });
  }

  /**
   * Moves the queue pair to ERR and resolves when all posted requests have completed. The result has the completions
   * that were not yet polled, most of them flushed. Completions of other queue pairs stay queued in order.
   * @throws InvalidHandleError, InvalidStateError when the queue pair is closed or reset during the drain
   */
  drain(options: QpDrainOptions = {}): Promise<Completion[]> {
    this.draining ??= drainQp(this, options).finally(() => {
      this.draining = null;
    });
    return untilAborted(this.draining, options.signal);
  }

  /** ibv_attach_mcast(3): receives datagrams of a multicast group (UD), once if attached twice. close() detaches it. */
  attachMcast(gid: string, lid = 0): void {
    this.provider.attachMcast(this.handle, gid, lid);
    this.groups ??= [];
    if (this.groupAt(gid, lid) < 0) this.groups.push({ gid, lid });
  }

  /** ibv_detach_mcast(3). */
  detachMcast(gid: string, lid = 0): void {
    this.provider.detachMcast(this.handle, gid, lid);
    const at = this.groupAt(gid, lid);
    if (at >= 0) this.groups?.splice(at, 1);
  }

  /** Where a group is listed, in any spelling; -1 if it is not. */
  private groupAt(gid: string, lid: number): number {
    const bytes = gidToBytes(gid).join();
    return this.groups?.findIndex((one) => gidToBytes(one.gid).join() === bytes && one.lid === lid) ?? -1;
  }

  /** ibv_modify_qp_rate_limit(3). @throws UnsupportedError */
  rateLimit(limit: QpRateLimit): void {
    this.provider.modifyQpRateLimit(this.handle, limit);
  }

  /** ibv_query_qp_data_in_order(3): whether a message of this opcode is written in the order of its addresses. */
  queryDataInOrder(opcode: SendRequest['opcode'], flags = 0): boolean {
    return this.provider.queryQpDataInOrder(this.handle, wrOpcode(opcode), flags) !== 0;
  }

  /** ibv_query_ece(3): options for enhanced connection establishment. @throws UnsupportedError */
  queryEce(): Ece {
    return this.provider.queryEce(this.handle);
  }

  /** ibv_set_ece(3), before toRtr(). @throws UnsupportedError */
  setEce(ece: Ece): void {
    this.provider.setEce(this.handle, ece);
  }

  /**
   * ibv_post_send(3): posts the requests start .. start + count - 1 of the batch in one call. Returns count.
   * @throws QueueFullError (ENOMEM), InvalidWorkRequestError: request `index` was rejected. The `posted` requests
   *   before it were posted, later ones were not.
   */
  postSend(batch: SendBatch, start = 0, count = batch?.length - start): number {
    if (batch !== this.lastSend || batch === null) {
      this.context.requireBatch('postSend', batch, 'SendBatch');
      this.lastSend = batch;
    }
    if (!(start >= 0 && count >= 0 && start + count <= batch.length)) throw rangeError(batch, start, count);
    const posted = this.provider.postSend(this.handle, batch.ring, start, count);
    if (posted === count) return count;
    const { errno, reason } = batch;
    throw postError({
      verb: 'postSend',
      label: this.label,
      errno,
      reason,
      start,
      posted,
      state: this.blockingState(reason),
    });
  }

  /** ibv_post_recv(3), with the arguments and errors of postSend(). */
  postRecv(batch: RecvBatch, start = 0, count = batch?.length - start): number {
    if (batch !== this.lastRecv || batch === null) {
      this.context.requireBatch('postRecv', batch, 'RecvBatch');
      this.lastRecv = batch;
    }
    if (!(start >= 0 && count >= 0 && start + count <= batch.length)) throw rangeError(batch, start, count);
    const posted = this.provider.postRecv(this.handle, batch.ring, start, count);
    if (posted === count) return count;
    const { errno, reason } = batch;
    throw postError({
      verb: 'postRecv',
      label: this.label,
      errno,
      reason,
      start,
      posted,
      state: this.blockingState(reason),
    });
  }

  /** Posts one send request given as an object. Convenient but slow: use batches on hot paths. */
  post(request: SendRequest): void {
    const { maxSendSge, maxInlineData } = this.cap;
    this.single ??= this.context.sendBatch({
      capacity: 1,
      sges: Math.max(2, maxSendSge),
      inlineBytes: maxInlineData,
    });
    packSend(this.single, request, this);
    this.postSend(this.single);
  }

  /**
   * Posts one request and resolves with its completion, which no poll() or next() returns.
   * @throws CompletionError when the request fails
   * @throws InvalidHandleError, InvalidStateError when the queue pair is closed or reset during the wait
   * @throws QueueFullError, InvalidWorkRequestError when the request is rejected
   */
  async execute(request: SendRequest): Promise<Completion> {
    const { sendCq, qp } = this;
    const tag = newTag(this.provider);
    let resolve!: (completion: Completion) => void;
    let reject!: (error: Error) => void;
    const promise = new Promise<Completion>((yes, no) => {
      resolve = yes;
      reject = no;
    });
    const done = sendCq.claimTag(tag, qp, {
      take: (words, at) => {
        done();
        resolve({ ...sendCq.read(words, at), wrId: BigInt.asUintN(64, BigInt(request.wrId ?? 0)) });
        return true;
      },
      abandon: (error) => {
        done();
        reject(error);
      },
      fail: reject,
    });
    try {
      this.post({ ...request, wrId: tag, flags: { ...request.flags, signaled: true } });
    } catch (error) {
      done();
      throw error;
    }
    return expectSuccess(await promise);
  }

  /** Posts one receive request given as an object. */
  receive(request: RecvRequest): void {
    this.singleRecv ??= this.context.recvBatch({ capacity: 1, sges: Math.max(2, this.cap.maxRecvSge) });
    packRecv(this.singleRecv, request, this.context);
    this.postRecv(this.singleRecv);
  }

  /** Its state, if a post was rejected because of it. */
  private blockingState(reason: number): QpState | null {
    if (reason !== REASON_STATE) return null;
    try {
      return this.state;
    } catch {
      return null;
    }
  }

  /** Rejects waits for completions that will not arrive. */
  private abandon(error: () => Error): void {
    if (this.queues === null) return;
    const { send, recv } = this.queues;
    for (const cq of new Set([send, recv])) cq.abandon(this.qp, error);
  }

  private queuePair() {
    if (this.queues !== null) return this.queues;
    throw new InvalidArgumentError(`${this.label} is of type XRC_RECV: it has no queues of its own`);
  }

  /** Queried once per connection, so that both ends use the same values. */
  private localPath(portNum: number, gidIndex: number | undefined) {
    const key = `${portNum}/${gidIndex}`;
    let path = this.paths.get(key);
    if (path === undefined) {
      const port = this.context.queryPort(portNum);
      path = { port, gid: this.context.chooseGid(portNum, gidIndex) };
      this.paths.set(key, path);
    }
    return path;
  }

  private path(remote: Endpoint, options: RtrOptions): AhAttr {
    const { portNum = 1, gidIndex, hopLimit = 64, trafficClass = 0, sl = 0 } = options;
    const local = this.localPath(portNum, gidIndex);
    const routed = local.port.linkLayer === 'Ethernet' || remote.lid === 0;
    const ah: AhAttr = { portNum, sl, dlid: remote.lid };
    if (!routed && gidIndex === undefined) return ah;
    return { ...ah, dgid: remote.gid, sgidIndex: local.gid.index, hopLimit, trafficClass };
  }

  protected override eventSource(): EventSource {
    return this.context.asyncEvents;
  }

  protected override release(handle: number): void {
    // Detached one by one: if detaching a group fails, it is still listed when close() is called again.
    for (const groups = this.groups ?? []; groups.length > 0; groups.shift()) {
      this.provider.detachMcast(handle, groups[0].gid, groups[0].lid);
    }
    this.provider.destroyQp(handle);
  }

  protected override released(): void {
    this.context.removeEventSubject(this.qp);
    this.abandon(() => new InvalidHandleError(`${this.label} was closed during a wait for its completion`));
    this.single?.close();
    this.singleRecv?.close();
  }
}
