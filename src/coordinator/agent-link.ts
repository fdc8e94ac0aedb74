/**
 * The queue pairs of one host's agents at a device: a datagram queue pair for messages, and a reliable connection to each
 * peer that is probed (probe-path.ts). Messages are small and unacknowledged: agents repeat what matters.
 */
import { RecvBatch, SendBatch } from '../verbs/batch.ts';
import * as C from '../verbs/constants.ts';
import { InvalidArgumentError, IsoverbsError } from '../verbs/errors.ts';
import { gidFromWords, gidToWords } from '../verbs/gid.ts';
import type { Provider } from '../verbs/provider.ts';
import { maskOf } from '../verbs/qp-state.ts';
import type { GidEntry, MrInfo } from '../verbs/types.ts';
import { WcBatch } from '../verbs/wc-batch.ts';
import { AGENT_TENANT, type AgentAddress, MAX_MESSAGE_WORDS, requireWords } from './agent.ts';
import { PROBE_BYTES, ProbePath } from './probe-path.ts';

/** Kinds of frames. */
const MESSAGE = 0;
const HELLO = 1;
const CONNECT = 2;
const CONNECTED = 3;

// Words of a frame: magic, kind, hash of the agent's name, GIDs of source and destination (32 bits each), the message.
const MAGIC = 0x49534f41;
/** The third word of the GID of an IPv4 address. */
const IPV4_MAPPED = 0xffff;
const FROM_AT = 3;
const TO_AT = 7;
const HEADER_WORDS = 11;
const FRAME_BYTES = 8 * (HEADER_WORDS + MAX_MESSAGE_WORDS);
const GRH_BYTES = 40;
const RECEIVE_BYTES = GRH_BYTES + FRAME_BYTES;
const RECEIVES = 128;
const SENDS = 64;
/** Peers beyond this number are not probed, because anyone on the network can ask for a connection. */
const MAX_PATHS = 256;
const BATCH = 2 * (RECEIVES + SENDS + MAX_PATHS);
/** wr_id of the probe of the first peer; the wr_ids of messages are their slots. */
const FIRST_PROBE = 2 ** 16;
const QKEY = 0x1507a6;
const ACCESS = C.IBV_ACCESS_LOCAL_WRITE | C.IBV_ACCESS_REMOTE_WRITE;

/** An unused entry of a table of GIDs. */
export const NO_GID = '::';
/**
 * Peers beyond this number are ignored. Any host on the network can claim to be one, so those that this host did not look
 * up have half of the room, and only some may be new in each interval.
 */
const MAX_PEERS = 4096;
const MAX_CLAIMED = MAX_PEERS / 2;
const CLAIMED_PER_INTERVAL = 64;
/** Greetings leave this many slots free for messages. */
const FREE_SLOTS = 16;
/** Peers greet each other in this interval. */
export const HELLO_NS = 10e6;
/** A peer of which nothing was heard for this long is down: three greetings were lost. */
const SILENT_NS = 3.5 * HELLO_NS;
/** A peer that has been down for longer is greeted only this often. */
const REST_NS = 1e9;
/** A probe that takes longer is lost. */
const PROBE_TIMEOUT_NS = 100e6;

/** A host whose agents exchange messages with those of this one. */
interface Peer extends AgentAddress {
  readonly fromGid: string;
  /** Both GIDs as they are in frames, because a conversion takes longer than the rest of a frame. */
  readonly words: readonly number[];
  readonly fromWords: readonly number[];
  readonly ah: number;
  heardNs: number;
  greetedNs: number;
  isUp: boolean;
  path: ProbePath | null;
}

/** A frame that has arrived. */
interface Frame {
  /** The peer that has sent it; -1: it is new, and has these GIDs. */
  readonly peer: number;
  readonly from: string;
  readonly to: string;
  readonly qpNum: number;
  readonly kind: number;
  readonly agent: number;
  readonly words: Float64Array;
}

/** What happens on a link. */
export interface LinkEvents {
  message(peer: number, agent: number, words: Float64Array): void;
  peer(peer: number, change: 'up' | 'down'): void;
  /** NaN: lost. */
  probe(peer: number, latencyNs: number): void;
}

export class AgentLink {
  readonly qpNum: number;
  readonly context: number;
  /** Whether the host's agents are out of order: nothing is sent, and what arrives is dropped. */
  isDown = false;
  private readonly provider: Provider;
  private readonly events: LinkEvents;
  private readonly pd: number;
  private readonly cq: number;
  private readonly qp: number;
  private readonly mr: Omit<MrInfo, 'memory'>;
  /** Peers may write here, and nowhere else. */
  private readonly probeMr: MrInfo;
  private readonly words: Float64Array;
  private readonly bytes: Uint8Array;
  /** The GIDs of the port, by index. */
  readonly gids: readonly string[];
  private readonly entries: readonly GidEntry[];
  private readonly peers: Peer[] = [];
  /** Peers that this host did not look up: in all, and those that are new since the last greetings. */
  private claimed = 0;
  private newlyClaimed = 0;
  /** The next peer to greet in this interval. */
  private nextGreeted = Number.POSITIVE_INFINITY;
  private isClosed = false;
  /** What releases the objects of the device, in the order of their creation. */
  private readonly releases: (() => void)[] = [];
  private paths = 0;
  private readonly freeSends = Array.from({ length: SENDS }, (_, slot) => slot);
  private readonly sends: SendBatch;
  private readonly receives: RecvBatch;
  private readonly completions: WcBatch;

  /** @throws IsoverbsError if the device cannot be opened, or has no room for another queue pair */
  constructor(provider: Provider, device: string, events: LinkEvents) {
    this.provider = provider;
    this.events = events;
    try {
      const made = this.open(device);
      ({ context: this.context, pd: this.pd, cq: this.cq, qp: this.qp, qpNum: this.qpNum } = made);
      ({ mr: this.mr, probeMr: this.probeMr, words: this.words, entries: this.entries } = made);
      this.bytes = new Uint8Array(this.words.buffer);
      this.gids = this.entries.map(({ gid }) => gid);
      ({ sends: this.sends, receives: this.receives, completions: this.completions } = made);
      this.toRts();
      for (let slot = 0; slot < RECEIVES; slot++) this.receive(slot);
    } catch (error) {
      this.release();
      throw error;
    }
    provider.reqNotifyCq(this.cq, false);
  }

  /** Creates the objects of the device, each with what releases it. */
  private open(device: string) {
    const { provider, releases } = this;
    const context = provider.openDevice(device, { tenant: AGENT_TENANT });
    releases.push(() => provider.closeDevice(context));
    const pd = provider.allocPd(context);
    releases.push(() => provider.deallocPd(pd));
    const sends = new SendBatch(provider, { capacity: 1, sges: 1 });
    releases.push(() => provider.destroyRing(sends.ring));
    const receives = new RecvBatch(provider, { capacity: 1, sges: 1 });
    releases.push(() => provider.destroyRing(receives.ring));
    const completions = new WcBatch(provider, { capacity: BATCH });
    releases.push(() => provider.destroyRing(completions.ring));
    const bytes = RECEIVES * RECEIVE_BYTES + SENDS * FRAME_BYTES;
    const { memory, ...mr } = provider.allocMr(pd, bytes, C.IBV_ACCESS_LOCAL_WRITE);
    releases.push(() => provider.deregMr(mr.handle));
    const probeMr = provider.allocMr(pd, PROBE_BYTES, ACCESS);
    releases.push(() => provider.deregMr(probeMr.handle));
    // Behind the queue pair whose requests name them.
    releases.push(() => {
      for (const { ah } of this.peers) provider.destroyAh(ah);
    });
    const channel = provider.createCompChannel(context);
    releases.push(() => provider.destroyCompChannel(channel));
    const cq = provider.createCq(context, RECEIVES + SENDS + MAX_PATHS, channel).handle;
    releases.push(() => provider.destroyCq(cq));
    const cap = { maxSendWr: SENDS, maxRecvWr: RECEIVES, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
    const attr = { qpType: C.IBV_QPT_UD, sendCq: cq, recvCq: cq, cap, sqSigAll: false };
    const { handle: qp, qpNum } = provider.createQp(pd, attr);
    releases.push(() => provider.destroyQp(qp));
    provider.watchCompChannel(channel, () => this.poll());
    releases.push(() => provider.watchCompChannel(channel, null));
    const { gidTblLen } = provider.queryPort(context, 1);
    const entries = Array.from({ length: gidTblLen }, (_, i) => provider.queryGid(context, 1, i));
    const words = new Float64Array(memory, 0, bytes / 8);
    return { context, pd, cq, qp, qpNum, mr, probeMr, words, entries, sends, receives, completions };
  }

  private release(): void {
    for (const one of this.releases.splice(0).reverse()) one();
  }

  get nowNs(): number {
    return this.provider.nowNs(this.context);
  }

  get hasPeers(): boolean {
    return this.peers.length > 0;
  }

  private toRts(): void {
    const modify = (attr: Parameters<typeof maskOf>[0]) =>
      this.provider.modifyQp(this.qp, attr, maskOf(attr));
    modify({ qpState: C.IBV_QPS_INIT, pkeyIndex: 0, portNum: 1, qkey: QKEY });
    modify({ qpState: C.IBV_QPS_RTR });
    modify({ qpState: C.IBV_QPS_RTS, sqPsn: 0 });
  }

  private receive(slot: number): void {
    const { receives, mr } = this;
    receives.clear();
    receives.recv(slot, mr.addr + slot * RECEIVE_BYTES, RECEIVE_BYTES, mr.lkey);
    this.provider.postRecv(this.qp, receives.ring, 0, 1);
  }

  /** The number of a peer, which is greeted when it is new. -1: there are too many, or it cannot be reached. */
  peerAt({ gid, qpNum }: AgentAddress, fromGid: string): number {
    const { peers, provider } = this;
    const known = this.find(gid, qpNum, fromGid);
    if (known >= 0 || peers.length === MAX_PEERS || this.isClosed) return known;
    const sgidIndex = this.indexOf(fromGid);
    if (sgidIndex < 0 || gid === NO_GID) return -1;
    let ah: number;
    try {
      ah = provider.createAh(this.pd, { dgid: gid, sgidIndex, portNum: 1, hopLimit: 64 });
    } catch (error) {
      if (error instanceof IsoverbsError) return -1;
      throw error;
    }
    const { nowNs } = this;
    const [words, fromWords] = [gidToWords(gid), gidToWords(fromGid)];
    const state = { heardNs: nowNs, greetedNs: nowNs, isUp: false, path: null };
    peers.push({ gid, qpNum, fromGid, words, fromWords, ah, ...state });
    this.frame(peers.length - 1, HELLO, 0, []);
    return peers.length - 1;
  }

  private find(gid: string, qpNum: number, fromGid: string): number {
    return this.peers.findIndex((one) => one.gid === gid && one.qpNum === qpNum && one.fromGid === fromGid);
  }

  /** The number of a new peer that has sent a frame. -1: too many claim to be one. */
  private claim({ from, to, qpNum }: Frame): number {
    if (this.claimed === MAX_CLAIMED || this.newlyClaimed === CLAIMED_PER_INTERVAL) return -1;
    const peer = this.peerAt({ gid: from, qpNum }, to);
    if (peer < 0) return -1;
    this.claimed++;
    this.newlyClaimed++;
    return peer;
  }

  /** The index of one of the port's GIDs, by which RoCEv2 packets leave if there are several; -1: there is none. */
  private indexOf(gid: string): number {
    if (gid === NO_GID) return -1;
    const all = this.entries.filter((entry) => entry.gid === gid);
    return (all.find(({ type }) => type === 'RoCE v2') ?? all[0])?.index ?? -1;
  }

  /** @throws InvalidArgumentError for too many words, or an unknown peer */
  send(peer: number, agent: number, words: ArrayLike<number>): void {
    this.requirePeer(peer);
    requireWords(words);
    this.frame(peer, MESSAGE, agent, words);
  }

  private requirePeer(peer: number): Peer {
    const found = this.peers[peer];
    if (found === undefined) {
      throw new InvalidArgumentError(`there is no peer ${peer}: use a number that peerAt() or onPeer() gave`);
    }
    return found;
  }

  private frame(peer: number, kind: number, agent: number, words: ArrayLike<number>): void {
    const { provider, sends, mr } = this;
    if (this.isDown || this.isClosed) return;
    // Without a free slot, the message is lost.
    const slot = this.freeSends.pop();
    if (slot === undefined) return;
    const { ah, qpNum, words: toWords, fromWords } = this.peers[peer];
    const byteOffset = RECEIVES * RECEIVE_BYTES + slot * FRAME_BYTES;
    const at = byteOffset / 8;
    const w = this.words;
    [w[at], w[at + 1], w[at + 2]] = [MAGIC, kind, agent];
    w.set(fromWords, at + FROM_AT);
    w.set(toWords, at + TO_AT);
    w.set(words, at + HEADER_WORDS);
    sends.clear();
    const bytes = 8 * (HEADER_WORDS + words.length);
    sends.send(slot, C.IBV_SEND_SIGNALED, mr.addr + byteOffset, bytes, mr.lkey);
    sends.datagramTo(0, ah, qpNum, QKEY);
    if (provider.postSend(this.qp, sends.ring, 0, 1) === 0) this.freeSends.push(slot);
  }

  /** @throws InvalidArgumentError for an unknown peer, or a size that no probe has */
  probe(peer: number, bytes: number): void {
    const one = this.requirePeer(peer);
    if (!(Number.isInteger(bytes) && bytes >= 1 && bytes <= PROBE_BYTES)) {
      throw new InvalidArgumentError(`a probe has 1 to ${PROBE_BYTES} bytes, not ${bytes}`);
    }
    if (this.isDown || this.isClosed) return;
    one.path ??= this.makePath(one, peer);
    if (one.path === null) {
      this.events.probe(peer, Number.NaN);
      return;
    }
    if (!one.path.begin(bytes, this.nowNs)) return;
    if (one.path.isConnected) one.path.post();
    else this.frame(peer, CONNECT, 0, one.path.description);
  }

  /** Null: there are too many paths, or the device has no room for another queue pair. */
  private makePath({ gid, fromGid }: Peer, peer: number): ProbePath | null {
    const { provider, pd, cq, probeMr, context } = this;
    if (this.paths === MAX_PATHS) return null;
    const sgidIndex = this.indexOf(fromGid);
    const path = { dgid: gid, sgidIndex, portNum: 1, hopLimit: 64 };
    const mtu = provider.queryPort(context, 1).activeMtu;
    const { lkey, rkey, addr: bufferAddr } = probeMr;
    const wrId = FIRST_PROBE + peer;
    try {
      const made = new ProbePath(provider, { context, pd, cq, path, mtu, bufferAddr, lkey, rkey, wrId });
      this.paths++;
      return made;
    } catch (error) {
      if (error instanceof IsoverbsError) return null;
      throw error;
    }
  }

  /** Handles all completions, at an event of the device. */
  private poll(): void {
    const { provider, cq, completions: wc } = this;
    // Armed before it is polled: a completion in between raises an event, which finds nothing.
    provider.reqNotifyCq(cq, false);
    const n = provider.pollCq(cq, wc.ring, 0, BATCH);
    // First what the link itself needs: an event may close it, throw, or poll again.
    const events: (() => void)[] = [];
    for (let i = 0; i < n; i++) {
      const event = this.completed(i);
      if (event !== null) events.push(event);
    }
    let failure: { readonly error: unknown } | null = null;
    for (const event of events) {
      if (this.isClosed) break;
      try {
        event();
      } catch (error) {
        failure ??= { error };
      }
    }
    if (failure !== null) throw failure.error;
    this.greetMore();
  }

  /** Reuses what a completion has freed. Returns what it means; null: nothing. */
  private completed(i: number): (() => void) | null {
    const { completions: wc } = this;
    const id = wc.wrId(i);
    const isGood = wc.status(i) === C.IBV_WC_SUCCESS;
    if (id >= FIRST_PROBE) return () => this.probed(id - FIRST_PROBE, isGood);
    if (!wc.isRecv(i)) {
      this.freeSends.push(id);
      return null;
    }
    const frame = isGood && !this.isDown ? this.frameAt(id, wc.byteLen(i), wc.srcQp(i)) : null;
    this.receive(id);
    return frame === null ? null : () => this.received(frame);
  }

  /** What has arrived in a slot; null: it is no frame of an agent, or not from where it says. */
  private frameAt(slot: number, byteLen: number, qpNum: number): Frame | null {
    const at = (slot * RECEIVE_BYTES + GRH_BYTES) / 8;
    const length = (byteLen - GRH_BYTES) / 8 - HEADER_WORDS;
    const w = this.words;
    if (!Number.isInteger(length) || length < 0 || w[at] !== MAGIC) return null;
    if (!isFrom(this.bytes.subarray(slot * RECEIVE_BYTES, slot * RECEIVE_BYTES + GRH_BYTES), w, at))
      return null;
    const words = w.slice(at + HEADER_WORDS, at + HEADER_WORDS + length);
    const [kind, agent] = [w[at + 1], w[at + 2]];
    const peer = this.peers.findIndex(
      (one) =>
        one.qpNum === qpNum && isGid(one.words, w, at + FROM_AT) && isGid(one.fromWords, w, at + TO_AT),
    );
    if (peer >= 0) return { peer, from: '', to: '', qpNum, kind, agent, words };
    const [from, to] = [FROM_AT, TO_AT].map((offset) => gidFromWords(w, at + offset));
    return from === null || to === null ? null : { peer, from, to, qpNum, kind, agent, words };
  }

  private received(frame: Frame): void {
    const known = frame.peer >= 0 ? frame.peer : this.find(frame.from, frame.qpNum, frame.to);
    // Greets it, if it is new.
    const peer = known >= 0 ? known : this.claim(frame);
    if (peer < 0) return;
    this.heard(peer, known >= 0);
    const { kind, agent, words } = frame;
    if (kind === MESSAGE) this.events.message(peer, agent, words);
    else if (kind === CONNECT || kind === CONNECTED) this.connect(peer, words, kind === CONNECT);
  }

  private heard(peer: number, isKnown: boolean): void {
    const one = this.peers[peer];
    one.heardNs = this.nowNs;
    if (one.isUp) return;
    one.isUp = true;
    // A peer that was down has missed greetings; a new one was greeted just now.
    if (isKnown) this.frame(peer, HELLO, 0, []);
    this.events.peer(peer, 'up');
  }

  private connect(peer: number, words: Float64Array, isRequest: boolean): void {
    const one = this.peers[peer];
    if (words.length !== ProbePath.WORDS) return;
    if (!isRequest && one.path === null) return;
    if (isRequest && one.path !== null && !one.path.mayConnect(words)) {
      this.endProbe(peer);
    }
    one.path ??= this.makePath(one, peer);
    if (one.path === null) return;
    if (!one.path.connect(words)) {
      this.endProbe(peer);
      return;
    }
    if (isRequest) this.frame(peer, CONNECTED, 0, one.path.description);
    if (one.path.isWaiting) one.path.post();
  }

  private probed(peer: number, isGood: boolean): void {
    const path = this.peers[peer]?.path;
    if (!path?.isProbing) return;
    const latencyNs = path.end(this.nowNs);
    if (isGood) this.events.probe(peer, latencyNs);
    else this.dropPath(peer, true);
  }

  /** The path failed, or the peer has begun another. */
  private endProbe(peer: number): void {
    this.dropPath(peer, this.peers[peer].path?.isProbing === true);
  }

  private dropPath(peer: number, isLost: boolean): void {
    const one = this.peers[peer];
    if (one.path !== null) this.paths--;
    one.path?.close();
    one.path = null;
    if (isLost) this.events.probe(peer, Number.NaN);
  }

  /** Greets all peers, and finds those that are silent and probes that are lost. Called each HELLO_NS. */
  greet(): void {
    const { nowNs, peers } = this;
    this.newlyClaimed = 0;
    this.nextGreeted = 0;
    this.greetMore();
    for (let peer = 0; peer < peers.length && !this.isClosed; peer++) {
      const one = peers[peer];
      if (one.path?.isProbing && nowNs - one.path.beganNs > PROBE_TIMEOUT_NS) this.dropPath(peer, true);
      if (!one.isUp || nowNs - one.heardNs <= SILENT_NS) continue;
      one.isUp = false;
      this.events.peer(peer, 'down');
    }
  }

  /** Greets the next peers, as far as there are free slots. */
  private greetMore(): void {
    const { peers, nowNs } = this;
    while (this.nextGreeted < peers.length && this.freeSends.length > FREE_SLOTS && !this.isClosed) {
      const peer = this.nextGreeted++;
      const one = peers[peer];
      const isResting = !one.isUp && nowNs - one.heardNs > REST_NS && nowNs - one.greetedNs < REST_NS;
      if (isResting) continue;
      one.greetedNs = nowNs;
      this.frame(peer, HELLO, 0, []);
    }
  }

  close(): void {
    this.isClosed = true;
    for (const { path } of this.peers) path?.close();
    this.release();
  }
}

function isGid(gid: readonly number[], words: Float64Array, at: number): boolean {
  return (
    gid[3] === words[at + 3] && gid[2] === words[at + 2] && gid[1] === words[at + 1] && gid[0] === words[at]
  );
}

/**
 * Whether the packet's own header, which the NIC writes before the message, names the sender that the frame names. An IPv4
 * header follows 20 bytes of anything.
 */
function isFrom(header: Uint8Array, words: Float64Array, at: number): boolean {
  const is = (word: number, byte: number) =>
    words[at + FROM_AT + word] ===
    ((header[byte] << 24) | (header[byte + 1] << 16) | (header[byte + 2] << 8) | header[byte + 3]) >>> 0;
  const [mayBeIpv6, mayBeIpv4] = [header[0] >> 4 === 6, header[20] >> 4 === 4];
  if (mayBeIpv6 && is(0, 8) && is(1, 12) && is(2, 16) && is(3, 20)) return true;
  if (mayBeIpv4 && words[at + FROM_AT + 2] === IPV4_MAPPED && is(3, 32)) return true;
  // A device that writes no header.
  return !mayBeIpv6 && !mayBeIpv4;
}
