import { randomInt } from 'node:crypto';
import * as C from '../verbs/constants.ts';
import {
  type AhAttr,
  type GidEntry,
  InvalidArgumentError,
  maskOf,
  type PortAttr,
  type QpAttr,
  type QpCap,
  type QpInitAttr,
  type RecvBatch,
  type SendBatch,
  stateName,
} from '../verbs/index.ts';
import { type Access, accessBits } from './access.ts';
import { CompletionQueue } from './completion-queue.ts';
import type { Context } from './context.ts';
import { postError } from './post-error.ts';
import type { ProtectionDomain } from './protection-domain.ts';
import { packRecv, packSend, type RecvRequest, type SendRequest } from './request.ts';
import { CLOSE_RANK, Resource, requireOwned } from './resource.ts';

export type QpType = 'RC' | 'UC' | 'UD';
export type QpState = 'RESET' | 'INIT' | 'RTR' | 'RTS' | 'SQD' | 'SQE' | 'ERR';

export interface QueuePairOptions {
  sendCq: CompletionQueue;
  /** Default: sendCq. */
  recvCq?: CompletionQueue;
  /** Default 'RC'. */
  type?: QpType;
  /** Default: 128 requests each way, 2 elements each, no inline data. */
  cap?: Partial<QpCap>;
  /** Every send request completes visibly. Default false. */
  sqSigAll?: boolean;
  /** ISO: requests are fetched only as ENABLE requests on other queue pairs allow. Default false. */
  managed?: boolean;
}

/** What one end must know of the other to connect. */
export interface Endpoint {
  qpNum: number;
  /** First packet sequence number of its send queue. */
  psn: number;
  /** In IPv6 notation. */
  gid: string;
  /** 0 on RoCE. */
  lid: number;
  /** IBV_MTU_*: the largest that its port takes. */
  mtu?: number;
}

export interface PathOptions {
  /** Default 1. */
  portNum?: number;
  /** Index of the local GID; default: the preferred one (Context.chooseGid). */
  gidIndex?: number;
}

export interface InitOptions extends Pick<PathOptions, 'portNum'> {
  /** What peers may do through this queue pair. Default: read, write and atomics, as far as keys allow. */
  access?: Access;
  /** Default 0. */
  pkeyIndex?: number;
}

export interface RtrOptions extends PathOptions {
  /** IBV_MTU_*; default: the smaller of both ports' active MTUs. */
  mtu?: number;
  /** READs and atomics of the peer that may be outstanding. Default: what the device takes, at most 16. */
  maxDestRdAtomic?: number;
  /** Code of the RNR NAK delay; default 12 (0.64 ms). */
  minRnrTimer?: number;
  /** Default 64. */
  hopLimit?: number;
  trafficClass?: number;
  /** Service level; default 0. */
  sl?: number;
}

export interface RtsOptions {
  /** Own READs and atomics that may be outstanding. Default: what the device takes, at most 16. */
  maxRdAtomic?: number;
  /** Code of the acknowledgement timeout: 4.096 us * 2^timeout. Default 14 (67 ms). */
  timeout?: number;
  /** Default 6; some devices take 7 for "for ever". */
  retryCnt?: number;
  /** Default 7: for ever. */
  rnrRetry?: number;
}

export interface ConnectToOptions extends InitOptions, RtrOptions, RtsOptions {}

const TYPES: Record<QpType, number> = { RC: C.IBV_QPT_RC, UC: C.IBV_QPT_UC, UD: C.IBV_QPT_UD };
const DEFAULT_CAP: QpCap = { maxSendWr: 128, maxRecvWr: 128, maxSendSge: 2, maxRecvSge: 2, maxInlineData: 0 };
const DEFAULT_RD_ATOMIC = 16;
const ALL_REMOTE = { remoteRead: true, remoteWrite: true, remoteAtomic: true };

/** A queue pair (ibv_create_qp(3)). Made by pd.createQp(). */
export class QueuePair extends Resource {
  readonly context: Context;
  readonly pd: ProtectionDomain;
  readonly sendCq: CompletionQueue;
  readonly recvCq: CompletionQueue;
  readonly type: QpType;
  readonly qpNum: number;
  /** What was granted. */
  readonly cap: QpCap;
  /** First packet sequence number of the send queue, chosen at random. */
  readonly psn: number = randomInt(1 << 24);
  private readonly qp: number;
  private lastSend: SendBatch | null = null;
  private lastRecv: RecvBatch | null = null;
  private single: SendBatch | null = null;
  private singleRecv: RecvBatch | null = null;
  /** As last set: errors move a queue pair by themselves. */
  private lastState: number = C.IBV_QPS_RESET;
  /** What the local port and GID were when this queue pair first asked, by 'port/index'. */
  private readonly paths = new Map<string, { port: PortAttr; gid: GidEntry }>();

  /** @internal Use pd.createQp(). */
  constructor(pd: ProtectionDomain, options: QueuePairOptions) {
    const { sendCq, recvCq = sendCq, type = 'RC', sqSigAll = false, managed } = options;
    const { context, provider } = pd;
    requireOwned(sendCq, CompletionQueue, context, 'sendCq');
    requireOwned(recvCq, CompletionQueue, context, 'recvCq');
    if (TYPES[type] === undefined)
      throw new InvalidArgumentError(`type must be 'RC', 'UC' or 'UD', got '${type}'`);
    const init: QpInitAttr = {
      qpType: TYPES[type],
      sendCq: sendCq.handle,
      recvCq: recvCq.handle,
      cap: { ...DEFAULT_CAP, ...options.cap },
      sqSigAll,
    };
    if (managed !== undefined) init.managed = managed;
    const info = provider.createQp(pd.handle, init);
    const label = `queue pair ${info.qpNum} of ${context.name}`;
    const parents = [pd, sendCq, recvCq];
    super({ provider, handle: info.handle, label, rank: CLOSE_RANK.queuePair, parents });
    this.context = context;
    this.pd = pd;
    this.sendCq = sendCq;
    this.recvCq = recvCq;
    this.type = type;
    this.qp = info.handle;
    this.qpNum = info.qpNum;
    this.cap = info.cap;
    sendCq.addQp(this.qp, this);
    recvCq.addQp(this.qp, this);
  }

  /** ibv_modify_qp(3); the mask follows from the fields. @throws InvalidStateError naming wrong attributes */
  modify(attr: QpAttr): void {
    this.provider.modifyQp(this.handle, attr, maskOf(attr));
    this.lastState = attr.qpState ?? this.lastState;
    if (attr.qpState === C.IBV_QPS_RESET) this.paths.clear();
  }

  /** ibv_query_qp(3). */
  query(): { attr: QpAttr; init: QpInitAttr } {
    return this.provider.queryQp(this.handle);
  }

  /** Asks the device: errors move a queue pair to 'ERR' by themselves. */
  get state(): QpState {
    return stateName(this.query().attr.qpState ?? 0) as QpState;
  }

  /** What the peer must know of this end. */
  endpoint(options: PathOptions = {}): Endpoint {
    const { portNum = 1, gidIndex } = options;
    const { port, gid } = this.localPath(portNum, gidIndex);
    return { qpNum: this.qpNum, psn: this.psn, gid: gid.gid, lid: port.lid, mtu: port.activeMtu };
  }

  /** RESET -> INIT: receives may be posted from here on. */
  toInit(options: InitOptions = {}): void {
    const { portNum = 1, pkeyIndex = 0, access = ALL_REMOTE } = options;
    this.modify({ qpState: C.IBV_QPS_INIT, portNum, pkeyIndex, qpAccessFlags: accessBits(access) });
  }

  /** INIT -> RTR, towards `remote`: the queue pair receives. */
  toRtr(remote: Endpoint, options: RtrOptions = {}): void {
    const { portNum = 1, minRnrTimer = 12 } = options;
    const active = this.localPath(portNum, options.gidIndex).port.activeMtu;
    const attr: QpAttr = {
      qpState: C.IBV_QPS_RTR,
      pathMtu: options.mtu ?? Math.min(active, remote.mtu ?? active),
      destQpNum: remote.qpNum,
      rqPsn: remote.psn,
      ah: this.path(remote, options),
    };
    if (this.type === 'RC') {
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
    if (this.type === 'RC') {
      const { maxQpInitRdAtom } = this.context.queryDevice();
      attr.maxRdAtomic = options.maxRdAtomic ?? Math.min(maxQpInitRdAtom, DEFAULT_RD_ATOMIC);
      Object.assign(attr, { timeout, retryCnt, rnrRetry });
    }
    this.modify(attr);
  }

  /** RESET or INIT -> RTS, towards `remote`. Post the receives first (after toInit()) if the peer is fast. */
  connectTo(remote: Endpoint, options: ConnectToOptions = {}): void {
    if (this.lastState === C.IBV_QPS_RESET) this.toInit(options);
    this.toRtr(remote, options);
    this.toRts(options);
  }

  /**
   * ibv_post_send(3) for the requests start .. start + count - 1 of the batch, in one call. Returns count.
   * @throws QueueFullError (ENOMEM), InvalidWorkRequestError: `index` was refused, `posted` before it were
   *   posted, nothing from `index` on was
   */
  postSend(batch: SendBatch, start = 0, count = batch.length - start): number {
    if (batch !== this.lastSend) {
      this.context.requireBatch(batch);
      this.lastSend = batch;
    }
    if (!(start >= 0 && count >= 0 && start + count <= batch.length)) throw rangeError(batch, start, count);
    const posted = this.provider.postSend(this.handle, batch.ring, start, count);
    if (posted === count) return count;
    const { errno, reason } = batch;
    throw postError({ verb: 'postSend', label: this.label, errno, reason, start, posted });
  }

  /** ibv_post_recv(3), in the same way. */
  postRecv(batch: RecvBatch, start = 0, count = batch.length - start): number {
    if (batch !== this.lastRecv) {
      this.context.requireBatch(batch);
      this.lastRecv = batch;
    }
    if (!(start >= 0 && count >= 0 && start + count <= batch.length)) throw rangeError(batch, start, count);
    const posted = this.provider.postRecv(this.handle, batch.ring, start, count);
    if (posted === count) return count;
    const { errno, reason } = batch;
    throw postError({ verb: 'postRecv', label: this.label, errno, reason, start, posted });
  }

  /** Posts one send request given as an object. Convenient, not fast: use batches where it counts. */
  post(request: SendRequest): void {
    const { maxSendSge, maxInlineData } = this.cap;
    this.single ??= this.context.sendBatch({
      capacity: 1,
      sges: Math.max(2, maxSendSge),
      inlineBytes: maxInlineData,
    });
    packSend(this.single, request, this.context);
    this.postSend(this.single);
  }

  /** Posts one receive request given as an object. */
  receive(request: RecvRequest): void {
    this.singleRecv ??= this.context.recvBatch({ capacity: 1, sges: Math.max(2, this.cap.maxRecvSge) });
    packRecv(this.singleRecv, request, this.context);
    this.postRecv(this.singleRecv);
  }

  /** Asked for once in a connection: both ends are told the same. */
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

  protected override release(handle: number): void {
    this.provider.destroyQp(handle);
  }

  protected override released(): void {
    this.sendCq.removeQp(this.qp);
    this.recvCq.removeQp(this.qp);
    this.single?.close();
    this.singleRecv?.close();
  }
}

function rangeError(batch: SendBatch | RecvBatch, start: number, count: number): InvalidArgumentError {
  return new InvalidArgumentError(
    `start ${start} and count ${count} do not lie inside the ${batch.length} requests`,
  );
}
