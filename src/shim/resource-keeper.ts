/**
 * A policy's internal queue pairs, which the application never sees, each with a completion queue and an optional
 * buffer. A loopback is connected to itself. A twin accompanies a reliable connection of the application, and
 * peer/twins.ts connects it with the peer's.
 */
import * as C from '../verbs/constants.ts';
import * as L from '../verbs/layout.ts';
import type { Provider, QpReport } from '../verbs/provider.ts';
import { maskOf } from '../verbs/qp-state.ts';
import type { MrInfo, QpAttr, RingInfo } from '../verbs/types.ts';
import type { ShimContext } from './context.ts';
import { POSTS } from './counters.ts';
import type { TwinAddress } from './peer/chunks.ts';
import { isSend, takesReceive } from './peer/outbox.ts';
import { NO_TOKEN } from './policy.ts';
import type { QpLedger } from './qp-ledger.ts';
import type { LoopbackOptions, ResourceRequest, Resources, ResourceView, TwinOptions } from './resources.ts';
import { type KnownRing, scratchRing } from './tables.ts';

const HIGH = 2 ** -32;
const TWO32 = 2 ** 32;
const SCRATCH_SLOTS = 64;
const RING_SLOTS = 64;
/** The Q_Key of sinks. */
export const SINK_QKEY = 0x150f05;
const ACCESS = C.IBV_ACCESS_LOCAL_WRITE | C.IBV_ACCESS_REMOTE_WRITE | C.IBV_ACCESS_REMOTE_READ;
/** Attributes for sending, used unless better values are known for a queue pair. */
export const SENDING = { timeout: 14, retryCnt: 7, rnrRetry: 7 };
/** A mark in the high half of wr_id, whose low half is a token for onInternal. */
const HAS_TOKEN = 1;

/** The functions of the shim that resources use. */
export interface ResourcesHost {
  reportToken(token: number, status: number): void;
  /** A piece has ended: the handle of the application's queue pair, and the number of its request there. */
  pieceEnded(qp: number, request: number, status: number): void;
  /** The completion channel of a context that the shim listens to. */
  channel(context: ShimContext): number;
  /** Lets `asyncEvent` receive the events of a context. */
  listen(context: ShimContext): void;
}

type Fields = 'context' | 'qp' | 'cq' | 'qpNum' | 'options' | 'pd' | 'mr' | 'ofQp';

export class Resource implements ResourceView {
  readonly context: ShimContext;
  readonly qp: number;
  readonly cq: number;
  readonly qpNum: number;
  /** The protection domain of a loopback or sink; 0 for a twin, which is in that of its queue pair. */
  readonly pd: number;
  readonly mr: MrInfo | null;
  readonly buffer: Uint8Array | null;
  /** The queue pair that a twin accompanies. */
  readonly ofQp: QpLedger | null;
  readonly options: LoopbackOptions & TwinOptions;
  connected = false;
  /** Whether it has failed, or its connection has ended. */
  ended = false;
  /** The other end; null if it is unknown. */
  peer: TwinAddress | null = null;
  posted = 0;
  freed = 0;
  armed = false;
  /** By slot: queue pair and request that a piece belongs to, if it is one. Made for the first piece. */
  private pieces: Int32Array | null = null;

  constructor(fields: Pick<Resource, Fields>) {
    this.context = fields.context;
    this.qp = fields.qp;
    this.cq = fields.cq;
    this.qpNum = fields.qpNum;
    this.options = fields.options;
    this.pd = fields.pd;
    this.mr = fields.mr;
    this.ofQp = fields.ofQp;
    this.buffer = fields.mr === null ? null : new Uint8Array(fields.mr.memory, fields.mr.byteOffset);
  }

  get room(): number {
    return (this.options.depth - (this.posted - this.freed)) | 0;
  }

  /** A request was written; `qp`: whose piece it is; 0: of no queue pair. */
  push(qp: number, request: number): void {
    if (qp !== 0 || this.pieces !== null) {
      this.pieces ??= new Int32Array(2 * 2 ** Math.ceil(Math.log2(this.options.depth)));
      const at = (2 * this.posted) & (this.pieces.length - 1);
      this.pieces[at] = qp;
      this.pieces[at + 1] = request;
    }
    this.posted = (this.posted + 1) | 0;
  }

  /** The request with this number has ended, or was not posted: reports it if it is a piece. */
  finishPiece(host: ResourcesHost, seq: number, status: number): void {
    const { pieces } = this;
    if (pieces === null) return;
    const at = (2 * seq) & (pieces.length - 1);
    if (pieces[at] === 0) return;
    host.pieceEnded(pieces[at], pieces[at + 1], status);
    pieces[at] = 0;
  }

  /** Whether a piece of this queue pair is in flight. */
  carries(qp: number): boolean {
    return this.pieces?.some((word, at) => at % 2 === 0 && word === qp) === true;
  }
}

/** Makes, posts to, polls and destroys all resources of one shim. */
export class ResourceKeeper {
  private readonly next: Provider;
  private readonly host: ResourcesHost;
  private readonly byCq = new Map<number, Resource>();
  private ring: RingInfo | null = null;
  private words: Uint32Array = new Uint32Array(0);
  private scratch: KnownRing | null = null;
  /** Slots written and not yet posted, all of one resource: the owner. */
  private pending = 0;
  /** Slots of the owner that are being posted. */
  private posting = 0;
  private owner: Resource | null = null;
  /** Counts of requests that belong to no queue pair of the application. */
  readonly counts: Float64Array;

  constructor(next: Provider, host: ResourcesHost, counts: Float64Array) {
    this.next = next;
    this.host = host;
    this.counts = counts;
  }

  get any(): boolean {
    return this.byCq.size > 0;
  }

  /** The interface with which a policy declares resources of one context. */
  declare(context: ShimContext): Resources {
    return {
      context,
      loopback: (options) => this.loopback(context, options),
      sink: () => this.sink(context),
      twins: (options) => {
        // A peer can cause events of a twin.
        this.host.listen(context);
        return context.twinKinds.push(options) - 1;
      },
      twin: (qp, kind) => (qp as QpLedger).twins[kind] ?? null,
    };
  }

  private loopback(context: ShimContext, options: LoopbackOptions): Resource {
    const made = this.own(context, options, C.IBV_QPT_RC, (resource) =>
      this.toRts(resource, { ...this.ownPath(context), destQpNum: resource.qpNum }, ACCESS),
    );
    made.peer = this.addressOf(made);
    made.connected = true;
    return made;
  }

  /** The sink stays in RTR without receives, so it drops datagrams silently. */
  private sink(context: ShimContext): Resource {
    return this.own(context, { depth: 1 }, C.IBV_QPT_UD, (sink) => {
      this.modify(sink, { qpState: C.IBV_QPS_INIT, pkeyIndex: 0, portNum: 1, qkey: SINK_QKEY });
      this.modify(sink, { qpState: C.IBV_QPS_RTR });
    });
  }

  /** A resource that belongs to no queue pair of the application. */
  private own(
    context: ShimContext,
    options: LoopbackOptions,
    qpType: number,
    begin: (resource: Resource) => void,
  ): Resource {
    const { next } = this;
    const pd = next.allocPd(context.handle);
    let made: Resource;
    try {
      made = this.make(context, pd, options, null, qpType);
    } catch (error) {
      next.deallocPd(pd);
      throw error;
    }
    context.resources.push(made);
    try {
      begin(made);
    } catch (error) {
      this.destroy(made);
      throw error;
    }
    return made;
  }

  /** A queue pair of the application was created. */
  addTwins(qp: QpLedger): void {
    if (qp.type !== C.IBV_QPT_RC) return;
    try {
      for (const options of qp.context.twinKinds) {
        qp.twins.push(this.make(qp.context, qp.pd, options, qp));
      }
    } catch (error) {
      this.dropTwins(qp);
      throw error;
    }
  }

  dropTwins(qp: QpLedger): void {
    for (const twin of qp.twins.splice(0)) this.destroy(twin as Resource);
  }

  private make(
    context: ShimContext,
    pd: number,
    options: LoopbackOptions & TwinOptions,
    ofQp: QpLedger | null,
    qpType = C.IBV_QPT_RC,
  ): Resource {
    const { next } = this;
    const { depth, bufferBytes = 0, managed = false } = options;
    const undo: (() => void)[] = [];
    try {
      const cq = next.createCq(context.handle, 2 * depth, this.host.channel(context)).handle;
      undo.push(() => next.destroyCq(cq));
      const cap = { maxSendWr: depth, maxRecvWr: depth, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
      const attr = { qpType, sendCq: cq, recvCq: cq, cap, sqSigAll: false, managed };
      const qp = next.createQp(pd, attr);
      undo.push(() => next.destroyQp(qp.handle));
      const mr = bufferBytes > 0 ? next.allocMr(pd, bufferBytes, ACCESS) : null;
      const own = ofQp === null ? pd : 0;
      const { handle, qpNum } = qp;
      const resource = new Resource({ context, qp: handle, cq, qpNum, options, pd: own, mr, ofQp });
      this.byCq.set(cq, resource);
      return resource;
    } catch (error) {
      for (const step of undo.reverse()) step();
      throw error;
    }
  }

  private destroy(resource: Resource): void {
    const { next } = this;
    if (this.owner === resource) this.pending = 0;
    resource.connected = false;
    for (let seq = resource.freed; seq !== resource.posted; seq = (seq + 1) | 0) {
      resource.finishPiece(this.host, seq, C.IBV_WC_WR_FLUSH_ERR);
    }
    next.destroyQp(resource.qp);
    next.destroyCq(resource.cq);
    if (resource.mr !== null) next.deregMr(resource.mr.handle);
    if (resource.pd !== 0) next.deallocPd(resource.pd);
    this.byCq.delete(resource.cq);
    const all = resource.context.resources;
    const at = all.indexOf(resource);
    if (at >= 0) all.splice(at, 1);
  }

  /** The context closes: destroys its resources. */
  close(context: ShimContext): void {
    for (const resource of [...context.resources].reverse()) this.destroy(resource as Resource);
    if (this.byCq.size > 0) return;
    for (const ring of [this.ring, this.scratch]) if (ring) this.next.destroyRing(ring.handle);
    this.ring = null;
    this.scratch = null;
  }

  /** The path from a port to itself. */
  private ownPath(context: ShimContext): QpAttr {
    const { next } = this;
    const { gidTblLen, lid, activeMtu } = next.queryPort(context.handle, 1);
    let sgidIndex = 0;
    let dgid = '::';
    for (let i = 0; i < gidTblLen && dgid === '::'; i++) {
      dgid = next.queryGid(context.handle, 1, i).gid;
      sgidIndex = i;
    }
    const ah = { dgid, sgidIndex, hopLimit: 1, dlid: lid, portNum: 1 };
    return { portNum: 1, pkeyIndex: 0, pathMtu: activeMtu, ah, ...SENDING };
  }

  /**
   * The queue pair has failed, was reset or is destroyed: ends its twins, and those that carry pieces of its requests, so
   * that nothing of it is on its way any more.
   */
  endTwins(qp: QpLedger): void {
    for (const twin of qp.twins as Resource[]) this.end(twin);
    if (!qp.isStriped) return;
    for (const resource of this.byCq.values()) if (resource.carries(qp.handle)) this.end(resource);
  }

  private end(twin: Resource): void {
    twin.peer = null;
    if (!twin.connected) return;
    twin.connected = false;
    twin.ended = true;
    this.modify(twin, { qpState: C.IBV_QPS_ERR });
  }

  /** What the peer must know of a resource. */
  addressOf({ qpNum, mr, options, ofQp }: Resource): TwinAddress {
    const isShared = ofQp === null || options.shared === true;
    return { qpNum, bufferAddr: isShared ? (mr?.addr ?? 0) : 0, rkey: isShared ? (mr?.rkey ?? 0) : 0 };
  }

  modify(resource: Pick<Resource, 'qp'>, attr: QpAttr): void {
    this.next.modifyQp(resource.qp, attr, maskOf(attr));
  }

  toRts(resource: Pick<Resource, 'qp'>, path: QpAttr, qpAccessFlags: number): void {
    const modify = (attr: QpAttr) => this.modify(resource, attr);
    const { pkeyIndex = 0, portNum = 1, pathMtu, destQpNum, ah } = path;
    modify({ qpState: C.IBV_QPS_INIT, pkeyIndex, portNum, qpAccessFlags });
    const { maxDestRdAtomic = 1, minRnrTimer = 12 } = path;
    modify({ qpState: C.IBV_QPS_RTR, pathMtu, destQpNum, rqPsn: 0, maxDestRdAtomic, minRnrTimer, ah });
    const { timeout = 14, retryCnt = 7, rnrRetry = 7, maxRdAtomic = 1 } = path;
    modify({ qpState: C.IBV_QPS_RTS, sqPsn: 0, timeout, retryCnt, rnrRetry, maxRdAtomic });
  }

  post(resource: Resource, request: ResourceRequest): boolean {
    if (resource.room < 1 || !resource.connected) return false;
    const { opcode, bytes, token } = request;
    const at = this.slot(resource, token);
    const w = this.words;
    const isMessage = opcode < C.ISO_WR_WAIT;
    const flags = request.signaled || token !== NO_TOKEN ? C.IBV_SEND_SIGNALED : 0;
    const hasData = isMessage && bytes > 0;
    w[at + L.WR_OP] = opcode | (flags << 8) | (hasData ? 1 << 16 : 0);
    if (!isMessage) {
      w[at + L.WR_TARGET] = request.target;
      w[at + L.WR_COUNT] = request.count;
      w[at + L.WR_REPEAT] = 1;
    } else {
      const { memory = null } = request;
      const remote = memory?.remoteAddr ?? (resource.peer?.bufferAddr ?? 0) + request.remoteOffsetBytes;
      w[at + L.WR_REMOTE_LO] = remote;
      w[at + L.WR_REMOTE_HI] = remote * HIGH;
      w[at + L.WR_RKEY] = memory?.rkey ?? resource.peer?.rkey ?? 0;
      if (hasData && memory !== null) this.memory(at, memory.addr, bytes, memory.lkey);
      else if (hasData) this.element(resource, at, request.offsetBytes, bytes);
    }
    this.pending++;
    resource.push(0, 0);
    this.counts[POSTS]++;
    return true;
  }

  /**
   * Writes a piece of the oldest held request of a queue pair. `from` is the word of its slot, `sge` that of the element
   * in which the piece begins.
   */
  piece(
    resource: Resource,
    qp: QpLedger,
    { from, sge }: { from: number; sge: number },
    bytes: number,
    token: number,
  ): void {
    const { held, sgeOffset } = qp;
    const [, , offset] = qp.sums;
    const at = this.slot(resource, token);
    const w = this.words;
    const opcode = held[from + L.WR_OP] & 0xff;
    const isMessage = takesReceive(opcode);
    w[at + L.WR_OP] = (isMessage ? C.IBV_WR_RDMA_WRITE : opcode) | (C.IBV_SEND_SIGNALED << 8) | (1 << 16);
    if (isSend(opcode)) {
      qp.outbox!.aim(w, at, offset);
    } else {
      const remote = held[from + L.WR_REMOTE_LO] + offset;
      w[at + L.WR_REMOTE_LO] = remote;
      w[at + L.WR_REMOTE_HI] = held[from + L.WR_REMOTE_HI] + (remote >= TWO32 ? 1 : 0);
      w[at + L.WR_RKEY] = held[from + L.WR_RKEY];
    }
    const local = held[sge] + sgeOffset;
    w[at + L.WR_SGE0] = local;
    w[at + L.WR_SGE0 + L.SGE_HI] = held[sge + L.SGE_HI] + (local >= TWO32 ? 1 : 0);
    w[at + L.WR_SGE0 + L.SGE_LENGTH] = bytes;
    w[at + L.WR_SGE0 + L.SGE_LKEY] = held[sge + L.SGE_LKEY];
    this.pending++;
    resource.push(qp.handle, qp.issued);
  }

  receive(resource: Resource, offsetBytes: number, bytes: number, token: number): boolean {
    this.flush();
    const at = this.slot(resource, token);
    const w = this.words;
    w[at + L.WR_OP] = bytes > 0 ? 1 << 16 : 0;
    if (bytes > 0) this.element(resource, at, offsetBytes, bytes);
    const taken = this.next.postRecv(resource.qp, this.ring!.handle, 0, 1);
    if (taken === 1) this.arm(resource);
    return taken === 1;
  }

  /** One element in the resource's buffer; the device checks its bounds. */
  private element(resource: Resource, at: number, offsetBytes: number, bytes: number): void {
    this.memory(at, (resource.mr?.addr ?? 0) + offsetBytes, bytes, resource.mr?.lkey ?? 0);
  }

  private memory(at: number, addr: number, bytes: number, lkey: number): void {
    const w = this.words;
    w[at + L.WR_SGE0] = addr;
    w[at + L.WR_SGE0 + L.SGE_HI] = addr * HIGH;
    w[at + L.WR_SGE0 + L.SGE_LENGTH] = bytes;
    w[at + L.WR_SGE0 + L.SGE_LKEY] = lkey;
  }

  /** The word at which the next slot begins, whose wr_id is the token. */
  private slot(resource: Resource, token: number): number {
    if (this.pending > 0 && (this.owner !== resource || this.pending === RING_SLOTS)) this.flush();
    if (this.ring === null) {
      this.ring = this.next.createWrRing(RING_SLOTS, 1, 0);
      this.words = new Uint32Array(this.ring.memory);
    }
    this.owner = resource;
    const at = L.HEADER_WORDS + this.pending * L.SLOT_WORDS;
    this.words[at] = token;
    this.words[at + 1] = token === NO_TOKEN ? 0 : HAS_TOKEN;
    return at;
  }

  /** Posts what was written: at the end of an event, or before a request of another resource. */
  flush(): void {
    const n = this.pending;
    if (n === 0 || this.owner === null) return;
    this.pending = 0;
    const resource = this.owner;
    this.posting = n;
    const taken = this.next.postSend(resource.qp, this.ring!.handle, 0, n);
    this.posting = 0;
    resource.posted = (resource.posted - (n - taken)) | 0;
    for (let i = taken; i < n; i++) {
      const at = L.HEADER_WORDS + i * L.SLOT_WORDS;
      if (this.words[at + 1] === HAS_TOKEN) this.host.reportToken(this.words[at], C.IBV_WC_GENERAL_ERR);
      resource.finishPiece(this.host, (resource.posted + i - taken) | 0, C.IBV_WC_GENERAL_ERR);
    }
    // A refused piece would be refused again.
    if (taken < n && resource.ofQp !== null) this.end(resource);
    this.arm(resource);
  }

  /** The number of requests that the device has received on its queue pairs before the post in progress. */
  reports(): QpReport[] {
    return [...this.byCq.values()].map((resource) => {
      const { qp, freed } = resource;
      const posted = (resource.posted - (this.owner === resource ? this.posting + this.pending : 0)) | 0;
      return { qp, posted, freed, lastSignaled: (posted - 1) | 0, broken: false, staleErrorsUntil: null };
    });
  }

  /** Lets the next completion wake the shim. */
  private arm(resource: Resource): void {
    if (resource.armed) return;
    resource.armed = true;
    this.next.reqNotifyCq(resource.cq, false);
  }

  /** An asynchronous event of a queue pair or CQ. Returns whether that is a resource's. */
  asyncEvent(element: number, isFailure: boolean): boolean {
    for (const resource of this.byCq.values()) {
      if (element !== resource.qp && element !== resource.cq) continue;
      if (isFailure && resource.ofQp !== null) this.end(resource);
      return true;
    }
    return false;
  }

  /** A completion event of a CQ that is not the application's. */
  event(cq: number): void {
    const resource = this.byCq.get(cq);
    if (resource === undefined) return;
    resource.armed = false;
    this.poll(resource);
    // A completion between that poll and the next arming would raise no event: arm, then poll again.
    this.arm(resource);
    this.poll(resource);
  }

  /** Used by programs that only poll, in which events never run. */
  pollAll(context: ShimContext): void {
    for (const resource of this.byCq.values()) if (resource.context === context) this.poll(resource);
  }

  private poll(resource: Resource): void {
    this.scratch ??= scratchRing(this.next, SCRATCH_SLOTS);
    const { handle, words } = this.scratch;
    let n = SCRATCH_SLOTS;
    while (n === SCRATCH_SLOTS) {
      n = this.next.pollCq(resource.cq, handle, 0, SCRATCH_SLOTS);
      for (let i = 0; i < n; i++) {
        const at = L.HEADER_WORDS + i * L.SLOT_WORDS;
        const op = words[at + L.WC_OP];
        if ((op & L.WC_RECV_SIDE) === 0) {
          resource.freed = (words[at + L.WC_SEQ] + 1) | 0;
          resource.finishPiece(this.host, words[at + L.WC_SEQ], op & 0xff);
        }
        if ((op & 0xff) !== C.IBV_WC_SUCCESS && resource.ofQp !== null) this.end(resource);
        if (words[at + L.WC_ID_HI] === HAS_TOKEN) this.host.reportToken(words[at], op & 0xff);
      }
    }
  }
}
