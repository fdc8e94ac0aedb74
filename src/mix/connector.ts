/** Creates what an application needs from verbs: contexts, memory, connected queue pairs, and its reusable requests. */
import * as V from '../verbs/index.ts';
import { HostMemory, OWN_MEMORY_BYTES } from './host-memory.ts';
import { RECEIVE_BATCH, type ReceiverDevice } from './receiver.ts';
import type { App } from './resolve.ts';
import { POLL_BATCH, type SenderDevice } from './sender.ts';
import type { Stacks } from './stacks.ts';

/** What all queue pairs of one tenant on one host share. */
interface TenantContext {
  readonly host: number;
  readonly provider: V.Provider;
  readonly context: number;
  readonly pd: number;
  /** Serves queues that never complete anything. */
  readonly idleCq: number;
  readonly gid: string;
}

/** A queue pair and its peer. */
export interface Connection {
  readonly sender: SenderDevice;
  readonly qp: number;
  readonly peer: number;
  /** The receiving side of the peer; null unless the application uses SEND. */
  readonly receiver: ReceiverDevice | null;
}

/** Largest ring, in slots. The queue pairs of an application share rings. */
const RING_SLOTS = 1 << 16;
const GRH_BYTES = 40;
const QKEY = 0x15000;
const MIN_RECEIVES = 64;
const MAX_RECEIVES = 16384;
const RD_ATOMIC = 16;
const ACCESS =
  V.IBV_ACCESS_LOCAL_WRITE |
  V.IBV_ACCESS_REMOTE_WRITE |
  V.IBV_ACCESS_REMOTE_READ |
  V.IBV_ACCESS_REMOTE_ATOMIC;
const TYPES = { rc: V.IBV_QPT_RC, uc: V.IBV_QPT_UC, ud: V.IBV_QPT_UD };
const OPCODES = {
  write: V.IBV_WR_RDMA_WRITE,
  send: V.IBV_WR_SEND,
  read: V.IBV_WR_RDMA_READ,
  atomic: V.IBV_WR_ATOMIC_FETCH_AND_ADD,
};

export class Connector {
  private readonly stacks: Stacks;
  private readonly mtuBytes: number;
  private readonly memory: HostMemory;
  /** Only one poll runs at a time, so all connections of a stack share one batch. */
  private readonly wcs = new Map<V.Provider, V.WcBatch>();
  private readonly tenantContexts = new Map<string, TenantContext>();

  /** @param apps every application that will be connected: their memory is planned here */
  constructor(stacks: Stacks, mtuBytes: number, apps: readonly App[]) {
    this.stacks = stacks;
    this.mtuBytes = mtuBytes;
    this.memory = new HostMemory();
    for (const app of apps)
      for (const host of [app.host, app.to]) this.memory.reserve(host, memoryLayoutOf(app).bytes);
  }

  /** Creates and connects the queue pairs of an application. */
  connect(app: App): Connection[] {
    const [here, there] = [app.host, app.to].map((host) => this.tenantContext(host, app.tenant));
    const need = memoryLayoutOf(app);
    const [from, to] = [here, there].map((home) => this.register(home, need.bytes));
    const rings = new Rings(here.provider, there.provider, app);
    return Array.from({ length: app.qps }, (_, i) => {
      const offset = (i % need.buffers) * need.bufferBytes;
      const buffers = { from: from.addr + offset, lkey: from.lkey, to: to.addr + offset, toLkey: to.lkey };
      return this.connectOne(
        app,
        i,
        here,
        there,
        { ...buffers, rkey: to.rkey, bufferBytes: need.bufferBytes },
        rings,
      );
    });
  }

  private register({ host, pd, provider }: TenantContext, bytes: number): V.MrInfo {
    const { memory, offset } = this.memory.allocate(host, bytes);
    return provider.regMr(pd, memory, offset, bytes, ACCESS);
  }

  private connectOne(
    app: App,
    index: number,
    here: TenantContext,
    there: TenantContext,
    buffers: BufferPair,
    rings: Rings,
  ): Connection {
    const receives = app.op === 'send';
    const cq = here.provider.createCq(here.context, app.depth, 0).handle;
    const depth = receives ? Math.min(MAX_RECEIVES, Math.max(MIN_RECEIVES, 2 * app.depth)) : 1;
    const recvCq = receives ? there.provider.createCq(there.context, depth, 0).handle : there.idleCq;
    const inline = app.inline ? app.maxBytes : 0;
    const qps = [
      this.createQp(app, here, { sendCq: cq, recvCq: here.idleCq, sends: app.depth, receives: 1, inline }),
      this.createQp(app, there, { sendCq: there.idleCq, recvCq, sends: 1, receives: depth, inline: 0 }),
    ];
    const [qp, peer] = qps;
    this.toRts(app, here.provider, qp, peer, there.gid);
    this.toRts(app, there.provider, peer, qp, here.gid);
    exchangePeerDescriptions([here.provider, there.provider], [qp.handle, peer.handle]);
    if (app.rateGbps > 0) {
      here.provider.modifyQpRateLimit(qp.handle, {
        rateLimitKbps: Math.max(1, Math.round(app.rateGbps * 1e6)),
      });
    }
    const { batch, start } = rings.requests(index, buffers);
    if (app.transport === 'ud') this.setDestination(app, batch, start, here, there.gid, peer.qpNum);
    const posted = { ring: batch.ring, words: batch.words, start };
    return {
      sender: { qp: qp.handle, cq, ...posted, ...this.polledInto(here.provider) },
      qp: qp.handle,
      peer: peer.handle,
      receiver: receives
        ? {
            qp: peer.handle,
            cq: recvCq,
            ...rings.receives(index, buffers, peer.handle, depth),
            ...this.polledInto(there.provider),
          }
        : null,
    };
  }

  /** Where the completions of a provider's queues are polled into. */
  private polledInto(provider: V.Provider): { wcRing: number; wcWords: Uint32Array } {
    let batch = this.wcs.get(provider);
    if (batch === undefined) {
      batch = new V.WcBatch(provider, { capacity: POLL_BATCH });
      this.wcs.set(provider, batch);
    }
    return { wcRing: batch.ring, wcWords: batch.words };
  }

  /** The context of a tenant on a host, opened on first use. */
  private tenantContext(host: number, tenant: string): TenantContext {
    const key = `${host} ${tenant}`;
    let home = this.tenantContexts.get(key);
    if (home === undefined) {
      const { provider } = this.stacks.of(host);
      const context = provider.openDevice(`sim${host}`, { tenant });
      const pd = provider.allocPd(context);
      const idleCq = provider.createCq(context, 1, 0).handle;
      home = { host, provider, context, pd, idleCq, gid: provider.queryGid(context, 1, 1).gid };
      this.tenantContexts.set(key, home);
    }
    return home;
  }

  private createQp(
    app: App,
    home: TenantContext,
    o: { sendCq: number; recvCq: number; sends: number; receives: number; inline: number },
  ): V.QpInfo {
    return home.provider.createQp(home.pd, {
      qpType: TYPES[app.transport],
      sendCq: o.sendCq,
      recvCq: o.recvCq,
      cap: {
        maxSendWr: o.sends,
        maxRecvWr: o.receives,
        maxSendSge: 1,
        maxRecvSge: 1,
        maxInlineData: o.inline,
      },
      sqSigAll: false,
    });
  }

  /** Takes a queue pair from RESET to RTS, as a connection manager would. */
  private toRts(app: App, provider: V.Provider, qp: V.QpInfo, peer: V.QpInfo, dgid: string): void {
    const { transport } = app;
    const modify = (attr: V.QpAttr) => provider.modifyQp(qp.handle, attr, V.maskOf(attr));
    const init = { qpState: V.IBV_QPS_INIT, pkeyIndex: 0, portNum: 1 };
    if (transport === 'ud') {
      modify({ ...init, qkey: QKEY });
      modify({ qpState: V.IBV_QPS_RTR });
      modify({ qpState: V.IBV_QPS_RTS, sqPsn: 0 });
      return;
    }
    const reliable = transport === 'rc';
    const ah = { dgid, portNum: 1, sgidIndex: 1, sl: app.class };
    modify({ ...init, qpAccessFlags: ACCESS });
    modify({
      qpState: V.IBV_QPS_RTR,
      pathMtu: V.mtuCode(this.mtuBytes),
      destQpNum: peer.qpNum,
      rqPsn: 0,
      ah,
      ...(reliable && { maxDestRdAtomic: RD_ATOMIC, minRnrTimer: 1 }),
    });
    modify({
      qpState: V.IBV_QPS_RTS,
      sqPsn: 0,
      ...(reliable && { timeout: 14, retryCnt: 7, rnrRetry: 7, maxRdAtomic: RD_ATOMIC }),
    });
  }

  private setDestination(
    app: App,
    batch: V.SendBatch,
    start: number,
    home: TenantContext,
    dgid: string,
    qpNum: number,
  ): void {
    const ah = home.provider.createAh(home.pd, { dgid, portNum: 1, sgidIndex: 1, sl: app.class });
    for (let i = 0; i < app.batch; i++) batch.datagramTo(start + i, ah, qpNum, QKEY);
  }
}

/**
 * Passes each end's shim the description of the other, as a connection manager would. This runs after RTS, which is too
 * late for READ isolation through the peer: an end that is only read from never polls, so its shim could not answer.
 */
function exchangePeerDescriptions(providers: readonly V.Provider[], qps: readonly number[]): void {
  const described = qps.map((handle, end) => providers[end].describePeer?.(handle) ?? null);
  for (const [end, handle] of qps.entries()) providers[end].setPeer?.(handle, described[1 - end]);
}

/** The memory that one queue pair uses at its two ends. */
interface BufferPair {
  readonly from: number;
  readonly lkey: number;
  readonly to: number;
  readonly toLkey: number;
  readonly rkey: number;
  readonly bufferBytes: number;
}

/** The requests of an application: each queue pair's are written once and reposted, from rings that several share. */
class Rings {
  private readonly here: V.Provider;
  private readonly there: V.Provider;
  private readonly app: App;
  private send: V.SendBatch | null = null;
  private recv: V.RecvBatch | null = null;

  constructor(here: V.Provider, there: V.Provider, app: App) {
    this.here = here;
    this.there = there;
    this.app = app;
  }

  /** Writes the batch of queue pair `index`; only its last request is signaled. */
  requests(index: number, { from, lkey, to, rkey }: BufferPair): { batch: V.SendBatch; start: number } {
    const { app, here } = this;
    const inlineBytes = app.inline ? app.maxBytes : 0;
    if (this.send === null || this.send.length === this.send.capacity) {
      const capacity = app.batch * this.sharers(index, app.batch);
      this.send = new V.SendBatch(here, { capacity, sges: 1, inlineBytes });
    }
    const batch = this.send;
    const start = batch.length;
    const message = new Uint8Array(inlineBytes);
    const opcode = OPCODES[app.op];
    for (let i = 0; i < app.batch; i++) {
      const flags = i === app.batch - 1 ? V.IBV_SEND_SIGNALED : 0;
      if (app.inline) batch.inline(i, opcode, flags, message);
      else if (app.op === 'send') batch.send(i, flags, from, app.maxBytes, lkey);
      else if (app.op === 'write') batch.write(i, flags, from, app.maxBytes, lkey, to, rkey);
      else if (app.op === 'read') batch.read(i, flags, from, app.maxBytes, lkey, to, rkey);
      else batch.fetchAdd(i, flags, from, lkey, to, rkey, 1n);
      if (app.inline && app.op === 'write') batch.remoteTo(start + i, to, rkey);
    }
    return { batch, start };
  }

  /** Writes and posts all receives of queue pair `index`. */
  receives(index: number, { to, toLkey, bufferBytes }: BufferPair, qp: number, depth: number) {
    const { there } = this;
    if (this.recv === null || this.recv.length === this.recv.capacity) {
      const capacity = RECEIVE_BATCH * this.sharers(index, RECEIVE_BATCH);
      this.recv = new V.RecvBatch(there, { capacity });
    }
    const batch = this.recv;
    const start = batch.length;
    for (let i = 0; i < RECEIVE_BATCH; i++) batch.recv(i, to, bufferBytes, toLkey);
    for (let left = depth; left > 0; left -= RECEIVE_BATCH) {
      there.postRecv(qp, batch.ring, start, Math.min(left, RECEIVE_BATCH));
    }
    return { ring: batch.ring, start };
  }

  /** How many queue pairs, starting with `index`, share a ring when each takes `slots` of it. */
  private sharers(index: number, slots: number): number {
    return Math.max(1, Math.min(this.app.qps - index, Math.floor(RING_SLOTS / slots)));
  }
}

/** The memory an application needs at each end. Each queue pair has its own buffer unless they would be too large. */
function memoryLayoutOf(app: App): { bufferBytes: number; buffers: number; bytes: number } {
  const bufferBytes = app.maxBytes + (app.transport === 'ud' ? GRH_BYTES : 0);
  const buffers = bufferBytes * app.qps <= OWN_MEMORY_BYTES ? app.qps : 1;
  return { bufferBytes, buffers, bytes: bufferBytes * buffers };
}
