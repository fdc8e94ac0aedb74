/** Creates the verbs objects of an application: contexts, memory, connected queue pairs, and its reusable requests. */
import * as V from '../../verbs/index.ts';
import { posts } from '../operations.ts';
import type { App } from '../resolve.ts';
import type { Stacks } from '../stacks.ts';
import { HostMemory, OWN_MEMORY_BYTES } from './host-memory.ts';
import { RECEIVE_BATCH, type ReceiverDevice } from './receiver.ts';
import { type BufferPair, type RingApp, Rings } from './rings.ts';
import { limitRate, POLL_BATCH, type SenderDevice } from './sender.ts';

/** The objects that all queue pairs of one tenant on one host share. */
interface TenantContext {
  readonly host: number;
  readonly provider: V.Provider;
  readonly context: number;
  readonly pd: number;
  /** A completion queue for work queues without completions. */
  readonly idleCq: number;
  readonly gid: string;
  /** Ends of applications that use it. */
  users: number;
}

/** What release() closes of an application. */
interface AppObjects {
  readonly here: TenantContext;
  readonly there: TenantContext;
  readonly connections: readonly Connection[];
  /** The memory regions of the two ends. */
  readonly mrs: readonly number[];
}

/** A queue pair and its peer. */
export interface Connection {
  readonly sender: SenderDevice;
  readonly qp: number;
  readonly peer: number;
  /** The queue pairs of policies that carry pieces of messages to the peer, and back. */
  readonly pieceQps: { readonly atPeer: readonly number[]; readonly atQp: readonly number[] };
  /** The address handle with which it sends datagrams; 0: none. */
  readonly ah: number;
  /** The receiving side of the peer; null unless the application uses SEND. */
  readonly receiver: ReceiverDevice | null;
  /** What the two ends of an application that gets responses need in addition; null otherwise. */
  readonly reply: ReplyDevices | null;
}

/** Equal receives or requests, RECEIVE_BATCH of them in a row. */
export interface Reposted {
  readonly ring: number;
  readonly start: number;
}

export interface ReplyDevices {
  /** The receives in which the responses arrive. */
  readonly receives: Reposted;
  /** The responses, of which the last is signaled. */
  readonly responses: Reposted;
}

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
export class Connector {
  private readonly stacks: Stacks;
  private readonly mtuBytes: number;
  private readonly memory: HostMemory;
  /** Only one poll runs at a time, so all connections of a stack share one batch. */
  private readonly wcs = new Map<V.Provider, V.WcBatch>();
  private readonly tenantContexts = new Map<string, TenantContext>();
  private readonly objects = new Map<App, AppObjects>();
  /** By tenant. */
  private readonly weights = new Map<string, number>();
  private readonly groups = new Map<string, Map<string, number>>();

  /** @param apps every application that will be connected, whose memory is planned here */
  constructor(stacks: Stacks, mtuBytes: number, apps: readonly App[]) {
    this.stacks = stacks;
    this.mtuBytes = mtuBytes;
    this.memory = new HostMemory();
    for (const app of apps) this.addWeights(app);
    for (const app of apps)
      for (const host of [app.host, app.to]) this.memory.reserve(host, memoryLayoutOf(app).bytes);
  }

  /** Where the applications of a tenant differ, the highest weights count. */
  private addWeights({ tenant, weight, qpLabels: { group = '' }, groupWeight }: App): void {
    this.weights.set(tenant, Math.max(weight, this.weights.get(tenant) ?? 0));
    if (groupWeight === null) return;
    const groups = this.groups.get(tenant) ?? new Map<string, number>();
    groups.set(group, Math.max(groupWeight, groups.get(group) ?? 0));
    this.groups.set(tenant, groups);
  }

  /** Creates and connects the queue pairs of an application. */
  connect(app: App): Connection[] {
    const [here, there] = [app.host, app.to].map((host) => this.tenantContext(host, app.tenant));
    const need = memoryLayoutOf(app);
    const [from, to] = [here, there].map((home) => this.register(home, need.bytes));
    const rings = new Rings(here.provider, there.provider, app);
    const back = app.replyBytes > 0 ? new Rings(there.provider, here.provider, responsesOf(app)) : null;
    const connections = Array.from({ length: app.qps }, (_, i) => {
      const offset = (i % need.buffers) * need.bufferBytes;
      const buffers = {
        ...{ from: from.addr + offset, lkey: from.lkey, rkey: to.rkey },
        ...{ to: to.addr + offset, toLkey: to.lkey, bufferBytes: need.bufferBytes },
      };
      return this.connectOne(app, i, here, there, buffers, { rings, back });
    });
    this.objects.set(app, { here, there, connections, mrs: [from.handle, to.handle] });
    return connections;
  }

  /** Changes labels of the queue pairs of an application, at both ends; the weight is that of its tenant's contexts. */
  setLabels(app: App, { weight, ...labels }: Partial<V.Labels>): void {
    const objects = this.objects.get(app);
    if (objects === undefined) return;
    const { here, there, connections } = objects;
    const mask = V.maskOf(labels);
    for (const { qp, peer } of mask === 0 ? [] : connections) {
      here.provider.modifyQp(qp, labels, mask);
      there.provider.modifyQp(peer, labels, mask);
    }
    if (weight === undefined) return;
    for (const { provider, context } of [here, there]) provider.setLabels(context, { weight });
  }

  /** Sets the weight of the group that an application is in, for its tenant's contexts at both ends. */
  setGroupWeight(app: App, weight: number): void {
    const objects = this.objects.get(app);
    if (objects === undefined) return;
    const { here, there, connections } = objects;
    const { group = '' } = here.provider.queryQp(connections[0].qp).attr;
    for (const { provider, context } of [here, there]) provider.createGroup(context, group, weight);
  }

  /** Closes everything that connect() created for an application, and contexts that no other application uses. */
  release(app: App): void {
    const objects = this.objects.get(app);
    if (objects === undefined) return;
    this.objects.delete(app);
    const { here, there, connections, mrs } = objects;
    for (const { qp, peer, ah, sender, receiver } of connections) {
      here.provider.destroyQp(qp);
      there.provider.destroyQp(peer);
      here.provider.destroyCq(sender.cq);
      if (receiver !== null) there.provider.destroyCq(receiver.cq);
      if (ah !== 0) here.provider.destroyAh(ah);
    }
    here.provider.deregMr(mrs[0]);
    there.provider.deregMr(mrs[1]);
    for (const context of [here, there]) this.closeIfUnused(context);
  }

  private closeIfUnused(home: TenantContext): void {
    if (--home.users > 0) return;
    const { provider, context, pd, idleCq } = home;
    for (const [key, one] of this.tenantContexts) if (one === home) this.tenantContexts.delete(key);
    provider.destroyCq(idleCq);
    provider.deallocPd(pd);
    provider.closeDevice(context);
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
    { rings, back }: { rings: Rings; back: Rings | null },
  ): Connection {
    const [qp, peer] = this.createPair(app, here, there);
    this.toRts(app, here.provider, qp.info, peer.info, there.gid);
    this.toRts(app, there.provider, peer.info, qp.info, here.gid);
    const handles = [qp.info.handle, peer.info.handle];
    exchangePeerDescriptions([here.provider, there.provider], handles);
    if (app.rateGbps > 0) limitRate(here.provider, handles[0], app.rateGbps);
    const { batch, start } = rings.requests(index, buffers);
    const ah =
      app.transport === 'ud' ? this.setDestination(app, batch, start, here, there.gid, peer.info.qpNum) : 0;
    const posted = { ring: batch.ring, words: batch.words, start };
    const received = { qp: handles[1], cq: peer.cq, ...this.polledInto(there.provider) };
    return {
      sender: { qp: handles[0], cq: qp.cq, ...posted, ...this.polledInto(here.provider) },
      qp: handles[0],
      peer: handles[1],
      pieceQps: {
        atPeer: there.provider.pieceQps?.(handles[1]) ?? [],
        atQp: here.provider.pieceQps?.(handles[0]) ?? [],
      },
      ah,
      receiver: posts(app, 'send')
        ? { ...received, ...rings.receives(index, buffers, handles[1], receivesOf(app)) }
        : null,
      reply: back === null ? null : repliesOf(back, index, buffers, handles[0], receivesOf(app)),
    };
  }

  /** Creates both queue pairs, each with the completion queue that is polled for it. */
  private createPair(app: App, here: TenantContext, there: TenantContext): { info: V.QpInfo; cq: number }[] {
    const { depth, replyBytes, maxBytes } = app;
    const receives = posts(app, 'send') ? receivesOf(app) : 1;
    if (replyBytes > 0) {
      // Each end sends and receives. A completion of a request may be polled after its response.
      const sends = 2 * depth;
      return [here, there].map((home, end) => {
        const cq = home.provider.createCq(home.context, sends + receives, 0).handle;
        const inline = end === 0 ? (app.inline ? maxBytes : 0) : responsesOf(app).inline ? replyBytes : 0;
        return { info: this.createQp(app, home, { sendCq: cq, recvCq: cq, sends, receives, inline }), cq };
      });
    }
    const cq = here.provider.createCq(here.context, depth, 0).handle;
    const recvCq = posts(app, 'send')
      ? there.provider.createCq(there.context, receives, 0).handle
      : there.idleCq;
    const inline = app.inline ? maxBytes : 0;
    const one = { sendCq: cq, recvCq: here.idleCq, sends: depth, receives: 1, inline };
    const other = { sendCq: there.idleCq, recvCq, sends: 1, receives, inline: 0 };
    return [
      { info: this.createQp(app, here, one), cq },
      { info: this.createQp(app, there, other), cq: recvCq },
    ];
  }

  /** The batch into which completions of a provider's queues are polled. */
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
      const weight = this.weights.get(tenant) ?? 1;
      const groups = this.groups.get(tenant);
      const options = {
        tenant,
        labels: { weight },
        ...(groups !== undefined && { groups: Object.fromEntries(groups) }),
      };
      const context = provider.openDevice(`sim${host}`, options);
      const pd = provider.allocPd(context);
      const idleCq = provider.createCq(context, 1, 0).handle;
      home = { host, provider, context, pd, idleCq, gid: provider.queryGid(context, 1, 1).gid, users: 0 };
      this.tenantContexts.set(key, home);
    }
    home.users++;
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
      ...app.qpLabels,
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
  ): number {
    const ah = home.provider.createAh(home.pd, { dgid, portNum: 1, sgidIndex: 1, sl: app.class });
    for (let i = 0; i < app.batch; i++) batch.datagramTo(start + i, ah, qpNum, QKEY);
    return ah;
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

/** Receives that the peer of a queue pair keeps posted. */
function receivesOf({ depth }: App): number {
  return Math.min(MAX_RECEIVES, Math.max(MIN_RECEIVES, 2 * depth));
}

/** The responses of an application's peer. */
function responsesOf({ qps, replyBytes, isReplyInline }: App): RingApp {
  return { op: 'send', qps, batch: RECEIVE_BATCH, maxBytes: replyBytes, inline: isReplyInline };
}

/** Writes the responses of the peer of queue pair `index`, and posts the receives for them. */
function repliesOf(
  back: Rings,
  index: number,
  buffers: BufferPair,
  qp: number,
  receives: number,
): ReplyDevices {
  const { from, lkey, to, toLkey } = buffers;
  const turned = { ...buffers, from: to, lkey: toLkey, to: from, toLkey: lkey };
  const { batch, start } = back.requests(index, turned);
  return { receives: back.receives(index, turned, qp, receives), responses: { ring: batch.ring, start } };
}

/**
 * The memory that an application requires at each end. Each queue pair has its own buffer unless they would be too
 * large.
 */
function memoryLayoutOf(app: App): { bufferBytes: number; buffers: number; bytes: number } {
  const bufferBytes = Math.max(app.maxBytes, app.replyBytes) + (app.transport === 'ud' ? GRH_BYTES : 0);
  const buffers = bufferBytes * app.qps <= OWN_MEMORY_BYTES ? app.qps : 1;
  return { bufferBytes, buffers, bytes: bufferBytes * buffers };
}
