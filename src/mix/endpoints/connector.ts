/** Creates the verbs objects of an application: contexts, memory, connected queue pairs, and its reusable requests. */

import { RandomStream } from '../../sim/kernel/random.ts';
import * as V from '../../verbs/index.ts';
import { posts } from '../operations.ts';
import type { App } from '../resolve.ts';
import type { Stacks } from '../stacks.ts';
import { HostMemory, type MemoryPart } from './host-memory.ts';
import { type MemoryLayout, memoryLayoutOf } from './memory-layout.ts';
import type { ReceiverDevice } from './receiver.ts';
import { RegionBuffers } from './region-buffers.ts';
import {
  ACCESS,
  type BufferPair,
  type ReplyDevices,
  Rings,
  repliesOf,
  responsesOf,
  setKeys,
} from './rings.ts';
import { limitRate, POLL_BATCH, type SenderDevice } from './sender.ts';

/** The objects that all queue pairs of one tenant on one host share. */
export interface TenantContext {
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

/** Contexts of an application at its two ends, with their memory regions. */
interface Ends {
  readonly here: TenantContext;
  readonly there: TenantContext;
  readonly from: readonly V.MrInfo[];
  readonly to: readonly V.MrInfo[];
  /** The buffers that requests use; null: each queue pair has its own in the only region. */
  readonly buffers: RegionBuffers | null;
}

/** What release() closes of an application. */
interface AppObjects {
  /** By context; queue pair `i` uses those at `i % ends.length`. */
  readonly ends: Ends[];
  readonly connections: Connection[];
  /** The memory at its two ends. */
  readonly memory: readonly [MemoryPart, MemoryPart];
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

/** Two connected queue pairs, and the completion queues that are polled for them. */
interface Pair {
  readonly qp: number;
  readonly peer: number;
  readonly peerNum: number;
  readonly cq: number;
  readonly peerCq: number;
}

const QKEY = 0x15000;
const RD_ATOMIC = 16;
const TYPES = { rc: V.IBV_QPT_RC, uc: V.IBV_QPT_UC, ud: V.IBV_QPT_UD };
export class Connector {
  private readonly stacks: Stacks;
  private readonly options: { readonly mtuBytes: number; readonly seed: number };
  private nextBuffers = 0;
  readonly memory: HostMemory;
  /** Only one poll runs at a time, so all connections of a stack share one batch. */
  private readonly wcs = new Map<V.Provider, V.WcBatch>();
  private readonly tenantContexts = new Map<string, TenantContext>();
  private readonly objects = new Map<App, AppObjects>();
  private readonly closes = new Map<App, () => void>();
  /** By tenant. */
  private readonly weights = new Map<string, number>();
  private readonly groups = new Map<string, Map<string, number>>();

  /** @param apps every application that will be connected, whose memory is planned here */
  constructor(stacks: Stacks, options: { mtuBytes: number; seed: number }, apps: readonly App[]) {
    this.stacks = stacks;
    this.options = options;
    this.memory = new HostMemory();
    for (const app of apps) this.addWeights(app);
    for (const app of apps)
      for (const host of app.isRegistering ? [app.host] : [app.host, app.to])
        this.memory.reserve(host, memoryLayoutOf(app).bytes);
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
    const { bytes } = memoryLayoutOf(app);
    const memory: [MemoryPart, MemoryPart] = [
      this.memory.allocate(app.host, bytes),
      this.memory.allocate(app.to, bytes),
    ];
    const ends = Array.from({ length: app.contexts }, (_, i) => this.open(app, i, memory));
    const rings = new Rings(ends[0].here.provider, ends[0].there.provider, app);
    const back =
      app.replyBytes > 0 ? new Rings(ends[0].there.provider, ends[0].here.provider, responsesOf(app)) : null;
    const connections = Array.from({ length: app.qps }, (_, i) =>
      this.connectOne(app, i, ends[i % ends.length], { rings, back }),
    );
    this.objects.set(app, { ends, connections, memory });
    return connections;
  }

  /** The contexts with this number of an application's tenant at its two ends, and the memory of the application. */
  private open(app: App, index: number, memory: readonly [MemoryPart, MemoryPart]): Ends {
    const [here, there] = [app.host, app.to].map((host) => this.tenantContext(host, app.tenant, index));
    const layout = memoryLayoutOf(app);
    const from = register(here, memory[0], layout, app);
    const to = register(there, memory[1], layout, app);
    return { here, there, from, to, buffers: this.regionBuffers(app, layout, { from, to }) };
  }

  private regionBuffers(
    app: App,
    layout: MemoryLayout,
    ends: Pick<Ends, 'from' | 'to'>,
  ): RegionBuffers | null {
    if (app.memory === null) return null;
    const random = new RandomStream(this.options.seed, 'buffer', this.nextBuffers++);
    const uses = { isLocal: !app.inline, isRemote: app.op !== 'send' };
    return new RegionBuffers(app.memory, layout, ends, uses, random);
  }

  /** Destroys a queue pair and its peer, of which nothing is outstanding, and connects new ones that post the same. */
  renewQp(app: App, index: number): Connection {
    const { ends, connections } = this.objectsOf(app);
    const used = ends[index % ends.length];
    this.disconnect(used, connections[index]);
    connections[index] = this.reconnect(app, used, connections[index]);
    return connections[index];
  }

  /**
   * Destroys the queue pairs of a context, of which nothing is outstanding, at both ends, closes the context unless another
   * application uses it, and does the reverse. Returns the new connections in the order of the queue pairs.
   */
  renewContext(app: App, index: number): Connection[] {
    const { ends, connections, memory } = this.objectsOf(app);
    const own = connections.filter((_, i) => i % ends.length === index);
    for (const connection of own) this.disconnect(ends[index], connection);
    this.close(ends[index]);
    ends[index] = this.open(app, index, memory);
    const { from, to } = ends[index];
    return own.map((old, i) => {
      const { words, start } = old.sender;
      for (let at = start; at < start + app.batch; at++) setKeys(words, at, from[0].lkey, to[0].rkey);
      const renewed = this.reconnect(app, ends[index], old);
      connections[index + i * ends.length] = renewed;
      return renewed;
    });
  }

  private objectsOf(app: App): AppObjects {
    const objects = this.objects.get(app);
    if (objects === undefined) throw new Error(`${app.name} is not connected`);
    return objects;
  }

  /** Changes labels of the queue pairs of an application, at both ends; the weight is that of its tenant's contexts. */
  setLabels(app: App, { weight, ...labels }: Partial<V.Labels>): void {
    const objects = this.objects.get(app);
    if (objects === undefined) return;
    const { ends, connections } = objects;
    const mask = V.maskOf(labels);
    const [{ here, there }] = ends;
    for (const { qp, peer } of mask === 0 ? [] : connections) {
      here.provider.modifyQp(qp, labels, mask);
      there.provider.modifyQp(peer, labels, mask);
    }
    if (weight === undefined) return;
    for (const { provider, context } of contextsOf(ends)) provider.setLabels(context, { weight });
  }

  /** Sets the weight of the group that an application is in, for its tenant's contexts at both ends. */
  setGroupWeight(app: App, weight: number): void {
    const objects = this.objects.get(app);
    if (objects === undefined) return;
    const { ends, connections } = objects;
    const { group = '' } = ends[0].here.provider.queryQp(connections[0].qp).attr;
    for (const { provider, context } of contextsOf(ends)) provider.createGroup(context, group, weight);
  }

  /** Calls `close` when an application without queue pairs is released. */
  atRelease(app: App, close: () => void): void {
    this.closes.set(app, close);
  }

  /** Closes everything that connect() created for an application, and contexts that no other application uses. */
  release(app: App): void {
    this.closes.get(app)?.();
    this.closes.delete(app);
    const objects = this.objects.get(app);
    if (objects === undefined) return;
    this.objects.delete(app);
    const { ends, connections } = objects;
    for (const [i, connection] of connections.entries()) this.disconnect(ends[i % ends.length], connection);
    for (const one of ends) this.close(one);
  }

  /** Destroys a queue pair and its peer. */
  private disconnect({ here, there }: Ends, { qp, peer, ah, sender, receiver }: Connection): void {
    here.provider.destroyQp(qp);
    there.provider.destroyQp(peer);
    here.provider.destroyCq(sender.cq);
    if (receiver !== null) there.provider.destroyCq(receiver.cq);
    if (ah !== 0) here.provider.destroyAh(ah);
  }

  private close({ here, there, from, to }: Ends): void {
    for (const { handle } of from) here.provider.deregMr(handle);
    for (const { handle } of to) there.provider.deregMr(handle);
    for (const context of [here, there]) this.closeIfUnused(context);
  }

  /** Closes a context that its last user leaves. */
  closeIfUnused(home: TenantContext): void {
    if (--home.users > 0) return;
    const { provider, context, pd, idleCq } = home;
    for (const [key, one] of this.tenantContexts) if (one === home) this.tenantContexts.delete(key);
    provider.destroyCq(idleCq);
    provider.deallocPd(pd);
    provider.closeDevice(context);
  }

  private connectOne(
    app: App,
    index: number,
    ends: Ends,
    { rings, back }: { rings: Rings; back: Rings | null },
  ): Connection {
    const { here, there } = ends;
    const buffers = buffersOf(app, index, ends);
    const pair = this.connectPair(app, ends);
    const { batch, start } = rings.requests(index, buffers);
    const ah =
      app.transport === 'ud' ? this.setDestination(app, batch, start, here, there.gid, pair.peerNum) : 0;
    const posted = { ring: batch.ring, words: batch.words, start, buffers: ends.buffers };
    const { qp, peer, cq, peerCq } = pair;
    const received = { qp: peer, cq: peerCq, ...this.polledInto(there.provider) };
    return {
      sender: { qp, cq, ...posted, ...this.polledInto(here.provider) },
      qp,
      peer,
      pieceQps: pieceQpsOf(ends, pair),
      ah,
      receiver:
        posts(app, 'send') && app.receives > 0
          ? {
              ...received,
              ...rings.receives(index, buffers, peer, app.receives, ends.buffers),
              buffers: ends.buffers,
            }
          : null,
      reply: back === null ? null : repliesOf(back, index, buffers, qp, app.receives),
    };
  }

  /** Connects new queue pairs that post what destroyed ones have posted. */
  private reconnect(app: App, ends: Ends, old: Connection): Connection {
    const pair = this.connectPair(app, ends);
    const { qp, peer, cq } = pair;
    return {
      ...old,
      sender: { ...old.sender, qp, cq, buffers: ends.buffers },
      qp,
      peer,
      pieceQps: pieceQpsOf(ends, pair),
    };
  }

  /** Creates a queue pair and its peer, and takes both to RTS. */
  private connectPair(app: App, { here, there }: Ends): Pair {
    const [qp, peer] = this.createPair(app, here, there);
    this.toRts(app, here.provider, qp.info, peer.info, there.gid);
    this.toRts(app, there.provider, peer.info, qp.info, here.gid);
    const handles = [qp.info.handle, peer.info.handle];
    exchangePeerDescriptions([here.provider, there.provider], handles);
    if (app.rateGbps > 0) limitRate(here.provider, handles[0], app.rateGbps);
    return { qp: handles[0], peer: handles[1], peerNum: peer.info.qpNum, cq: qp.cq, peerCq: peer.cq };
  }

  /** Creates both queue pairs, each with the completion queue that is polled for it. */
  private createPair(app: App, here: TenantContext, there: TenantContext): { info: V.QpInfo; cq: number }[] {
    const { depth, replyBytes, maxBytes } = app;
    const receives = posts(app, 'send') ? Math.max(1, app.receives) : 1;
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
    const recvCq =
      posts(app, 'send') && app.receives > 0
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

  /** A context of a tenant on a host, opened on first use. */
  tenantContext(host: number, tenant: string, index: number): TenantContext {
    const key = `${host} ${index} ${tenant}`;
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
      pathMtu: V.mtuCode(this.options.mtuBytes),
      destQpNum: peer.qpNum,
      rqPsn: 0,
      ah,
      ...(reliable && { maxDestRdAtomic: RD_ATOMIC, minRnrTimer: app.rnrTimer }),
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

/** Registers the regions of an application at one end. Regions beyond those with memory of their own share it. */
function register(
  { pd, provider }: TenantContext,
  { memory, offset }: MemoryPart,
  { regionStride, ownRegions, regionBytes }: MemoryLayout,
  app: App,
): V.MrInfo[] {
  return Array.from({ length: app.memory?.regions ?? 1 }, (_, i) =>
    provider.regMr(pd, memory, offset + (i % ownRegions) * regionStride, regionBytes, ACCESS),
  );
}

/** All contexts of an application. */
function contextsOf(ends: readonly Ends[]): TenantContext[] {
  return ends.flatMap(({ here, there }) => [here, there]);
}

/** The buffers of queue pair `index` at its two ends. */
function buffersOf(app: App, index: number, { from, to }: Ends): BufferPair {
  const { buffers, bufferBytes } = memoryLayoutOf(app);
  const offset = (index % buffers) * bufferBytes;
  const [own, peers] = [from[0], to[0]];
  return {
    ...{ from: own.addr + offset, lkey: own.lkey, rkey: peers.rkey },
    ...{ to: peers.addr + offset, toLkey: peers.lkey, bufferBytes },
  };
}

function pieceQpsOf({ here, there }: Ends, { qp, peer }: Pair): Connection['pieceQps'] {
  return {
    atPeer: there.provider.pieceQps?.(peer) ?? [],
    atQp: here.provider.pieceQps?.(qp) ?? [],
  };
}
