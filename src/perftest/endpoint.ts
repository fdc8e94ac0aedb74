/** One end of a test: its device, memory, queue pairs, and how they are connected. */
import type {
  CompletionQueue,
  Context,
  MemoryRegion,
  ProtectionDomain,
  QueuePair,
  SharedReceiveQueue,
} from '../objects/index.ts';
import type { CmEnvironment } from '../objects/rdma-cm/index.ts';
import * as V from '../verbs/index.ts';
import type { Channel } from './channel.ts';
import { acceptQps, connectQps } from './cm-connect.ts';
import { agreeOnTerms, type Destination, exchangeDestinations, type Terms } from './handshake.ts';
import { GROUP_QPN, groupOf, joinOnHost, reaches } from './multicast.ts';
import type { Settings } from './settings.ts';
import { Sleeper } from './sleeper.ts';

const GRH_BYTES = 40;
/** The Q_Key that perftest uses for datagrams. */
export const QKEY = 0x11111111;
/** Completions taken per poll. */
const POLL_BATCH = 64;
const HOP_LIMIT = 255;
const WR_ID_HALF = 2 ** 32;

/** The destination of a queue pair. */
interface Remote {
  readonly qpNum: number;
  readonly addr: number;
  readonly rkey: number;
  /** Handle of the address handle; 0 if the queue pair is connected. */
  readonly ah: number;
}

export class Endpoint {
  readonly settings: Settings;
  readonly context: Context;
  readonly channel: Channel;
  readonly terms: Terms;
  readonly mr: MemoryRegion;
  /** Sleeps until something completes (--events); null if this end polls. */
  readonly sleeper: Sleeper | null;
  readonly sendCq: CompletionQueue;
  readonly recvCq: CompletionQueue;
  readonly qps: QueuePair[] = [];
  remotes: Remote[] = [];
  /** Completions polled so far. */
  polled = 0;
  readonly wcs: V.WcBatch;
  /** By queue pair: the requests, which are reused. */
  readonly sends: readonly V.SendBatch[];
  /** By receive queue (that of a queue pair, or the shared one): the receives, which are reused. */
  readonly receives: readonly V.RecvBatch[];
  /** Size of each queue pair's send buffer, and of its receive buffer. */
  readonly bufferBytes: number;
  /** Bytes of a receive before the message: the GRH of a datagram. */
  readonly headerBytes: number;
  readonly inlineBytes: number;
  /** The most READs and atomics that this device may have outstanding on a queue pair; the peer's may answer more. */
  private readonly mostReads: number;
  readonly outReads: number;
  readonly pd: ProtectionDomain;
  private readonly srq: SharedReceiveQueue | null;
  private readonly gid: V.GidEntry | null;
  /** The multicast group in which this end receives; null if it has none. */
  private readonly group: string | null;
  private leaveGroup: () => void = () => {};

  private constructor(settings: Settings, context: Context, channel: Channel, terms: Terms) {
    const { qp: count, txDepth, rxDepth, sizeBytes, connection } = settings;
    this.settings = settings;
    this.context = context;
    this.channel = channel;
    this.terms = terms;
    const { maxQpInitRdAtom } = context.queryDevice();
    this.mostReads = maxQpInitRdAtom;
    this.outReads = settings.kind.verb === 'read' || settings.kind.verb === 'atomic' ? maxQpInitRdAtom : 1;
    if (settings.outs !== undefined) this.outReads = Math.min(settings.outs, this.outReads);
    this.gid = gidOf(context, settings);
    this.group = ownGroup(this.gid, settings, channel.role);
    this.headerBytes = connection === 'UD' ? GRH_BYTES : 0;
    this.bufferBytes =
      Math.max(sizeBytes, terms.cycleBytes) + (connection === 'UD' ? terms.cacheLineBytes : 0);
    this.pd = context.allocPd();
    this.mr = this.pd.allocate(2 * count * this.bufferBytes, {
      access: { remoteWrite: true, remoteRead: true, remoteAtomic: true },
    });
    this.mr.bytes.fill(0x5a);
    const channelOfCqs = settings.events ? context.createChannel() : null;
    this.sendCq = context.createCq({ cqe: txDepth * count, channel: channelOfCqs });
    this.recvCq = context.createCq({ cqe: rxDepth * count, channel: channelOfCqs });
    this.sleeper = channelOfCqs && new Sleeper(channelOfCqs, [this.sendCq, this.recvCq]);
    this.srq = settings.useSrq ? this.pd.createSrq({ maxWr: rxDepth, maxSge: 1 }) : null;
    this.inlineBytes = this.createQps(settings.inlineBytes);
    this.wcs = context.wcBatch({ capacity: POLL_BATCH });
    const { inlineBytes } = this;
    this.sends = this.qps.map(() => context.sendBatch({ capacity: txDepth, inlineBytes }));
    const queues: readonly unknown[] = this.srq === null ? this.qps : [this.srq];
    this.receives = queues.map(() => context.recvBatch({ capacity: rxDepth }));
  }

  /** Agrees on the terms of the test with the other end, and creates the objects that the test needs. */
  static async open(settings: Settings, context: Context, channel: Channel): Promise<Endpoint> {
    requireSupported(context, settings);
    const terms = await agreeOnTerms(channel, localMtu(context, settings), !settings.dont_xchg_versions);
    const endpoint = new Endpoint(withinMtu(settings, terms), context, channel, terms);
    await endpoint.joinGroup();
    return endpoint;
  }

  private async joinGroup(): Promise<void> {
    const { group, gid, context } = this;
    if (group === null || gid === null) return;
    for (const qp of this.qps) qp.attachMcast(group);
    this.leaveGroup = await joinOnHost(context, gid, group);
  }

  /** Writes the receives of queue `index` for messages of `sizeBytes`. The high half of their wr_id is `index`. */
  writeReceives(index: number, sizeBytes: number): void {
    const batch = this.receives[index].clear();
    const lengthBytes = sizeBytes + this.headerBytes;
    while (batch.length < batch.capacity) {
      batch.recv(index * WR_ID_HALF, this.recvAddr(index), lengthBytes, this.mr.lkey);
    }
  }

  /** Index of the local GID; null if the ends address each other by LID. */
  get gidIndex(): number | null {
    return this.gid?.index ?? null;
  }

  /** Exchanges the destinations of all queue pairs and connects them, in the order of perftest's program for this test. */
  async connect(onExchanged: (mine: Destination[], theirs: Destination[]) => void): Promise<void> {
    const { channel, settings } = this;
    if (settings.rdma_cm) await this.connectByCm();
    const mine = this.destinations();
    const { verb, measures } = settings.kind;
    const early = measures === 'lat' && verb !== 'send';
    if (early) await exchangeDestinations(channel, mine[0]);
    const theirs: Destination[] = [];
    for (const keys of mine) theirs.push(await exchangeDestinations(channel, keys));
    this.remotes = theirs.map((keys, i) => this.connectQp(this.qps[i], keys));
    if (verb === 'send') await this.synchronize();
    for (const keys of mine) await exchangeDestinations(channel, keys);
    onExchanged(mine, theirs);
    if (verb !== 'send') await this.synchronize();
  }

  /** Connects by rdma_cm, before the ends exchange destinations. */
  private async connectByCm(): Promise<void> {
    const { settings, context } = this;
    const { provider } = context;
    const env: CmEnvironment = { provider, openDevice: () => context };
    const { server, port, source_ip } = settings;
    if (server === null) await acceptQps(env, { server, port, source_ip }, this, () => this.synchronize());
    else {
      await this.synchronize();
      await connectQps(env, { server, port, source_ip }, this);
    }
    await this.synchronize();
  }

  /** Waits until both ends reach this point. With `patient` there is no timeout: the other end may be in its test. */
  async synchronize(options: { patient?: boolean } = {}): Promise<void> {
    await exchangeDestinations(this.channel, this.destinations()[0], options);
  }

  /** Address of the send buffer of queue pair `index`. */
  sendAddr(index: number): number {
    return this.mr.addr + index * this.bufferBytes;
  }

  /** The bytes of that buffer. */
  sendBytes(index: number): Uint8Array {
    return this.mr.bytes.subarray(index * this.bufferBytes, (index + 1) * this.bufferBytes);
  }

  /** Address at which receives of queue `index` place their message, or the GRH in front of it. */
  recvAddr(index: number): number {
    const { settings, bufferBytes, terms, headerBytes } = this;
    const aligned = headerBytes > 0 ? terms.cacheLineBytes - headerBytes : 0;
    return this.mr.addr + (settings.qp + index) * bufferBytes + aligned;
  }

  /** Posts `count` receives to queue `index`. */
  postReceives(index: number, count: number): void {
    (this.srq ?? this.qps[index]).postRecv(this.receives[index], 0, count);
  }

  /** Distance from one message to the next, and the number of positions before the first is reused. */
  strideOf(sizeBytes: number): { bytes: number; positions: number } {
    const { cycleBytes, cacheLineBytes } = this.terms;
    if (sizeBytes > cycleBytes / 2) return { bytes: 0, positions: 1 };
    const bytes = Math.ceil(sizeBytes / cacheLineBytes) * cacheLineBytes;
    return { bytes, positions: Math.floor(cycleBytes / bytes) };
  }

  /** Polls `cq`. @throws CompletionError for the first completion that failed */
  poll(cq: CompletionQueue): number {
    const { wcs } = this;
    const n = cq.poll(wcs);
    this.polled += n;
    for (let i = 0; i < n; i++) if (wcs.status(i) !== V.IBV_WC_SUCCESS) this.throwFailed(i);
    return n;
  }

  private throwFailed(i: number): never {
    const { wcs } = this;
    const status = wcs.status(i);
    const [qp, number] = [Math.floor(wcs.wrId(i) / WR_ID_HALF), wcs.wrId(i) % WR_ID_HALF];
    throw new V.CompletionError(
      ` Completion with error at ${this.channel.role}\n` +
        ` Failed status ${status}: wr_id ${qp} syndrom 0x${wcs.vendorErr(i).toString(16)}\n` +
        ` scnt=${number}: ${V.wcStatusName(status)}`,
      { status },
    );
  }

  /** Leaves the multicast group. Closing the context ends everything else. */
  close(): void {
    this.leaveGroup();
  }

  /** Creates the queue pairs, without inline data if the device refuses it; returns the inline limit. */
  private createQps(inlineBytes: number): number {
    const { settings, sendCq, recvCq, pd, srq } = this;
    const { txDepth, rxDepth, connection, qp: count } = settings;
    const cap = { maxSendWr: txDepth, maxRecvWr: rxDepth, maxSendSge: 1, maxRecvSge: 1 };
    const make = (maxInlineData: number) =>
      pd.createQp({
        sendCq,
        recvCq,
        type: connection,
        cap: { ...cap, maxInlineData },
        srq: srq ?? undefined,
      });
    try {
      this.qps.push(make(inlineBytes));
    } catch (error) {
      if (inlineBytes === 0 || settings.inlineGiven) throw error;
      this.qps.push(make(0));
      inlineBytes = 0;
    }
    while (this.qps.length < count) this.qps.push(make(inlineBytes));
    if (!settings.rdma_cm) for (const qp of this.qps) qp.toInit({ portNum: settings.ibPort, qkey: QKEY });
    return inlineBytes;
  }

  private destinations(): Destination[] {
    const { gid, outReads, mr, settings, group } = this;
    const { lid } = this.context.queryPort(settings.ibPort);
    return this.qps.map(({ qpNum, psn }, i) => ({
      lid,
      outReads,
      qpNum: group === null ? qpNum : GROUP_QPN,
      psn,
      rkey: mr.rkey,
      vaddr: BigInt(mr.addr + (settings.qp + i) * this.bufferBytes),
      gid: group ?? gid?.gid ?? null,
      srqNum: 0,
    }));
  }

  private connectQp(qp: QueuePair, remote: Destination): Remote {
    const { settings, terms, gid, outReads } = this;
    const { ibPort: portNum, sl, qpTimeout: timeout } = settings;
    const remoteQp = { qpNum: remote.qpNum, addr: Number(remote.vaddr), rkey: remote.rkey };
    if (settings.rdma_cm) return { ...remoteQp, ah: 0 };
    const path = { portNum, gidIndex: gid?.index };
    const to = { qpNum: remote.qpNum, psn: remote.psn, gid: remote.gid ?? '::', lid: remote.lid };
    if (settings.connection === 'UD') {
      qp.start({ portNum, qkey: QKEY });
      requireReachable(gid, to.gid);
      return { ...remoteQp, ah: this.pd.createAhTo(to, path).handle };
    }
    qp.connectTo(to, {
      ...path,
      sl,
      timeout,
      mtu: terms.mtu,
      hopLimit: HOP_LIMIT,
      retryCnt: 7,
      rnrRetry: 7,
      maxDestRdAtomic: outReads,
      maxRdAtomic: Math.min(this.mostReads, Math.max(1, remote.outReads)),
    });
    return { ...remoteQp, ah: 0 };
  }
}

/** The group in which an end receives; null if it receives nothing from a group. @throws ConfigError */
function ownGroup(
  gid: V.GidEntry | null,
  { mcg, MGID, kind }: Settings,
  role: Channel['role'],
): string | null {
  const isBandwidth = kind.measures === 'bw';
  if (!mcg || gid === null || (isBandwidth && role === 'client')) return null;
  return groupOf(MGID, gid.gid, role);
}

/** @throws HandshakeError if the other end receives in a group that datagrams of this end do not reach */
function requireReachable(local: V.GidEntry | null, remote: string): void {
  if (local === null || !V.isMulticastGid(remote) || reaches(local.gid, remote)) return;
  throw new V.HandshakeError(
    `the other end receives in the group ${remote}, which the GID ${local.gid} does not reach; select another GID with --gid-index at one end`,
  );
}

/** @throws ConfigError if the device has no multicast, or if that requires a subnet manager */
function requireMulticast({ name }: Context, linkLayer: string, groups: number): void {
  if (groups === 0) throw new V.ConfigError(`--mcg: ${name} does not support multicast`);
  if (linkLayer === 'Ethernet') return;
  throw new V.ConfigError(
    `--mcg: ${name} is an InfiniBand device, whose multicast groups require a subnet manager; use a RoCE device`,
  );
}

/** Checks that the device supports the settings. @throws ConfigError */
export function requireSupported(context: Context, settings: Settings): void {
  const { ibPort, sizeBytes, gidIndex } = settings;
  const { name } = context;
  const { physPortCnt, maxMcastGrp } = context.queryDevice();
  if (ibPort > physPortCnt)
    throw new V.ConfigError(
      `--ib-port ${ibPort}: ${name} has ${physPortCnt} port${physPortCnt === 1 ? '' : 's'}`,
    );
  const { maxMsgSizeBytes, linkLayer } = context.queryPort(ibPort);
  if (settings.mcg) requireMulticast(context, linkLayer, maxMcastGrp);
  if (sizeBytes > maxMsgSizeBytes) {
    throw new V.ConfigError(
      `--size ${sizeBytes}: the largest message of ${name} is ${maxMsgSizeBytes} bytes`,
    );
  }
  withinMtu(settings, { mtu: localMtu(context, settings) });
  if (gidIndex !== undefined) requireGidAt(context, ibPort, gidIndex);
  if (settings.mcg) ownGroup(gidOf(context, settings), settings, 'server');
}

/** @throws ConfigError if the port has no GID at this index */
function requireGidAt(context: Context, ibPort: number, gidIndex: number): void {
  const known = context.gids(ibPort).map(({ index }) => index);
  if (!known.includes(gidIndex)) {
    const list = known.length === 0 ? 'no GIDs' : `GIDs at ${known.join(', ')}`;
    throw new V.ConfigError(`--gid-index ${gidIndex}: port ${ibPort} of ${context.name} has ${list}`);
  }
}

/** The path MTU (IBV_MTU_*) of this end. */
function localMtu(context: Context, { ibPort, mtu }: Settings): number {
  const { activeMtu } = context.queryPort(ibPort);
  return mtu === undefined ? activeMtu : Math.min(V.mtuCode(Number(mtu)), activeMtu);
}

/** The GID of this end: used on Ethernet, and elsewhere if one is requested. */
function gidOf(context: Context, { ibPort, gidIndex }: Settings): V.GidEntry | null {
  const routed = context.queryPort(ibPort).linkLayer === 'Ethernet' || gidIndex !== undefined;
  return routed ? context.chooseGid(ibPort, gidIndex) : null;
}

/** A datagram is one packet: limits the default size to the MTU. @throws ConfigError if a larger size was requested */
function withinMtu(settings: Settings, { mtu }: Pick<Terms, 'mtu'>): Settings {
  const most = V.mtuBytes(mtu);
  if (settings.connection !== 'UD' || settings.sizeBytes <= most) return settings;
  if (settings.sizeGiven)
    throw new V.ConfigError(`Max message size in UD cannot be greater than MTU: ${most}`);
  return { ...settings, sizeBytes: most };
}
