/**
 * The peers of one host's agents at a device: the messages that they exchange over carriers (agent-carrier.ts), and a
 * reliable connection to each peer that is probed (probe-path.ts).
 */
import * as C from '../verbs/constants.ts';
import { InvalidArgumentError, IsoverbsError } from '../verbs/errors.ts';
import type { Provider } from '../verbs/provider.ts';
import type { GidEntry, MrInfo } from '../verbs/types.ts';
import { WcBatch } from '../verbs/wc-batch.ts';
import { AGENT_TENANT, requireWords } from './agent.ts';
import {
  type AgentAddress,
  type AgentCarrier,
  type AgentChannel,
  CONNECT,
  CONNECTED,
  type Frame,
  HELLO,
  MESSAGE,
} from './agent-carrier.ts';
import { AgentDatagrams, DATAGRAM_COMPLETIONS } from './agent-datagrams.ts';
import { PeerPulses } from './peer-pulses.ts';
import { PROBE_BYTES, ProbePath } from './probe-path.ts';

/** Peers beyond this number are not probed, because anyone on the network can ask for a connection. */
const MAX_PATHS = 256;
const COMPLETIONS = DATAGRAM_COMPLETIONS + MAX_PATHS;
const BATCH = 2 * COMPLETIONS;
/** wr_id of the probe of the first peer; the wr_ids of datagrams are less. */
const FIRST_PROBE = 2 ** 16;
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
/** Peers greet each other in this interval. */
export const HELLO_NS = 10e6;
/** The words of a greeting that requests one in return. */
const ANSWER = [1];
/** A peer of which nothing was heard for this long is down: three greetings were lost. */
const SILENT_NS = 3.5 * HELLO_NS;
/** A peer that has been down for longer is greeted only this often. */
const REST_NS = 1e9;
/** A peer that has been down for longer is forgotten, unless an agent needs it. */
const FORGET_NS = 60e9;
/** The time in which a greeting has left. */
const SENT_NS = 100e6;
/** A probe that takes longer is lost. */
const PROBE_TIMEOUT_NS = 100e6;

/** A host whose agents exchange messages with those of this one. */
interface Peer {
  readonly gid: string;
  readonly qpNum: number;
  readonly fromGid: string;
  readonly channel: AgentChannel;
  /** Whether the carrier reports if the peer is alive. */
  readonly isWatched: boolean;
  heardNs: number;
  greetedNs: number;
  isUp: boolean;
  path: ProbePath | null;
  /** Whether the peer made contact, not this host. */
  isClaimed: boolean;
  /** When the agents were last asked whether they still need it. */
  keptNs: number;
}

/** Stands where a peer was forgotten. */
const FORGOTTEN: Peer = {
  ...{ gid: '', qpNum: -1, fromGid: '', isWatched: false, isUp: false, path: null, isClaimed: false },
  ...{ heardNs: 0, greetedNs: 0, keptNs: 0 },
  channel: { send: () => {}, close: () => {} },
};

/** What happens on a link. */
export interface LinkEvents {
  message(peer: number, agent: number, words: Float64Array): void;
  peer(peer: number, change: 'up' | 'down'): void;
  silent(peer: number, isSilent: boolean): void;
  /** Whether a peer that is down is needed no more. */
  forget(peer: number): boolean;
  /** NaN: lost. */
  probe(peer: number, latencyNs: number): void;
}

export class AgentLink {
  readonly context: number;
  /** Whether the host's agents are out of order: nothing is sent, and what arrives is dropped. */
  isDown = false;
  private readonly provider: Provider;
  private readonly events: LinkEvents;
  private readonly pd: number;
  private readonly cq: number;
  /** Null: the device has no datagrams. */
  private readonly datagrams: AgentDatagrams | null;
  /** Peers may write here, and nowhere else. */
  private readonly probeMr: MrInfo;
  /** The GIDs of the port, by index. */
  readonly gids: readonly string[];
  private readonly entries: readonly GidEntry[];
  private readonly peers: Peer[] = [];
  /** Numbers of peers that were forgotten. */
  private readonly freeNumbers: number[] = [];
  /** Peers that this host did not look up: in all, and those that are new since the last greetings. */
  private claimed = 0;
  private newlyClaimed = 0;
  /** The next peer to greet in this interval. */
  private nextGreeted = Number.POSITIVE_INFINITY;
  private isClosed = false;
  /** What releases the objects of the device, in the order of their creation. */
  private readonly releases: (() => void)[] = [];
  private paths = 0;
  private readonly pulses = new PeerPulses(HELLO_NS, {
    ask: (peer) => {
      if (this.peers[peer].isUp) this.frame(peer, HELLO, 0, ANSWER);
    },
    silent: (peer, isSilent) => {
      if (this.peers[peer].isUp) this.events.silent(peer, isSilent);
    },
  });
  private readonly completions: WcBatch;

  /**
   * @param hasCarrier whether the agents of other hosts can be reached without datagrams
   * @throws IsoverbsError if the device cannot be opened, or has no room for another queue pair
   */
  constructor(provider: Provider, device: string, events: LinkEvents, hasCarrier = false) {
    this.provider = provider;
    this.events = events;
    try {
      const made = this.open(device);
      ({ context: this.context, pd: this.pd, cq: this.cq, probeMr: this.probeMr } = made);
      ({ entries: this.entries, completions: this.completions } = made);
      this.gids = this.entries.map(({ gid }) => gid);
      this.datagrams = this.makeDatagrams(hasCarrier);
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
    const completions = new WcBatch(provider, { capacity: BATCH });
    releases.push(() => provider.destroyRing(completions.ring));
    const probeMr = provider.allocMr(pd, PROBE_BYTES, ACCESS);
    releases.push(() => provider.deregMr(probeMr.handle));
    const channel = provider.createCompChannel(context);
    releases.push(() => provider.destroyCompChannel(channel));
    const cq = provider.createCq(context, COMPLETIONS, channel).handle;
    releases.push(() => provider.destroyCq(cq));
    provider.watchCompChannel(channel, () => this.poll());
    releases.push(() => provider.watchCompChannel(channel, null));
    const { gidTblLen } = provider.queryPort(context, 1);
    const entries = Array.from({ length: gidTblLen }, (_, i) => provider.queryGid(context, 1, i));
    return { context, pd, cq, probeMr, entries, completions };
  }

  private makeDatagrams(hasCarrier: boolean): AgentDatagrams | null {
    const { provider, pd, cq, releases } = this;
    const parts = { provider, pd, cq, releases, indexOf: (gid: string) => this.indexOf(gid) };
    try {
      return new AgentDatagrams(parts);
    } catch (error) {
      if (hasCarrier && error instanceof IsoverbsError) return null;
      throw error;
    }
  }

  /** The number of the datagram queue pair; 0: the device has none. */
  get qpNum(): number {
    return this.datagrams?.qpNum ?? 0;
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

  /** The number of a peer, which is greeted when it is new. -1: there are too many, or it cannot be reached. */
  peerAt(address: AgentAddress, fromGid: string): number {
    const { peers, nowNs } = this;
    const { gid, qpNum, carrier = this.datagrams } = address;
    const known = this.find(gid, qpNum, fromGid);
    const number = this.freeNumbers.at(-1) ?? peers.length;
    if (known >= 0 || number === MAX_PEERS || this.isClosed) return known;
    if (carrier === null || this.indexOf(fromGid) < 0 || gid === NO_GID) return -1;
    const channel = carrier.channel(address, fromGid, number);
    if (channel === null) return -1;
    const state = {
      heardNs: nowNs,
      greetedNs: nowNs,
      isUp: false,
      path: null,
      isClaimed: false,
      keptNs: nowNs,
    };
    const isWatched = carrier.watchesPeers;
    this.freeNumbers.pop();
    peers[number] = { gid, qpNum, fromGid, channel, isWatched, ...state };
    this.frame(number, HELLO, 0, isWatched ? ANSWER : []);
    return number;
  }

  private find(gid: string, qpNum: number, fromGid: string): number {
    return this.peers.findIndex((one) => one.gid === gid && one.qpNum === qpNum && one.fromGid === fromGid);
  }

  /** The number of a new peer that has sent a frame. -1: too many claim to be one. */
  private claim({ from, to, qpNum }: Frame, carrier: AgentCarrier | undefined): number {
    if (this.claimed === MAX_CLAIMED || this.newlyClaimed === CLAIMED_PER_INTERVAL) return -1;
    const peer = this.peerAt({ gid: from, qpNum, carrier }, to);
    if (peer < 0) return -1;
    this.peers[peer].isClaimed = true;
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
    if (found === undefined || found === FORGOTTEN) {
      throw new InvalidArgumentError(`there is no peer ${peer}: use a number that peerAt() or onPeer() gave`);
    }
    return found;
  }

  private frame(peer: number, kind: number, agent: number, words: ArrayLike<number>): void {
    if (!this.isDown && !this.isClosed) this.peers[peer].channel.send(kind, agent, words);
  }

  /** The GID of a peer's port. @throws InvalidArgumentError for an unknown peer */
  gidOf(peer: number): string {
    return this.requirePeer(peer).gid;
  }

  /** Begins or ends to watch a peer. Others than those that a carrier watches are down when they are silent. */
  watch(peer: number, isWatched: boolean): void {
    if (!this.requirePeer(peer).isWatched) return;
    if (isWatched) this.pulses.watch(peer, this.nowNs);
    else this.pulses.unwatch(peer);
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
    if (id >= FIRST_PROBE) {
      const isGood = wc.status(i) === C.IBV_WC_SUCCESS;
      return () => this.probed(id - FIRST_PROBE, isGood);
    }
    const frame = this.datagrams?.completed(wc, i) ?? null;
    return frame === null || this.isDown ? null : () => this.receive(frame);
  }

  /** A frame has arrived, by this carrier or as a datagram. */
  receive(frame: Frame, carrier?: AgentCarrier): void {
    if (this.isDown || this.isClosed) return;
    const known = frame.peer >= 0 ? frame.peer : this.find(frame.from, frame.qpNum, frame.to);
    // Greets it, if it is new.
    const peer = known >= 0 ? known : this.claim(frame, carrier);
    if (peer < 0) return;
    this.heard(peer, known >= 0);
    const { kind, agent, words } = frame;
    if (kind === MESSAGE) this.events.message(peer, agent, words);
    else if (kind === HELLO && words.length > 0) this.frame(peer, HELLO, 0, []);
    else if (kind === CONNECT || kind === CONNECTED) this.connect(peer, words, kind === CONNECT);
  }

  private heard(peer: number, isKnown: boolean): void {
    const one = this.peers[peer];
    one.heardNs = this.nowNs;
    this.pulses.heard(peer, one.heardNs);
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
    if (!one.path.isWaiting) return;
    // If both ends request, the peer may not be connected yet. What is sent before that is lost until the ACK timeout.
    if (isRequest) this.frame(peer, CONNECT, 0, one.path.description);
    else one.path.post();
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
      if (one.isUp && !one.isWatched && nowNs - one.heardNs > SILENT_NS) this.lost(peer);
      else if (!one.isUp && nowNs - Math.max(one.heardNs, one.keptNs) > FORGET_NS) this.forget(peer);
    }
    if (!this.isClosed) this.pulses.check(nowNs);
  }

  private lost(peer: number): void {
    this.peers[peer].isUp = false;
    this.events.peer(peer, 'down');
  }

  /** Forgets a peer that is down, if no agent needs it. */
  private forget(peer: number): void {
    const one = this.peers[peer];
    const { nowNs } = this;
    // A greeting that is being sent names the channel.
    if (one === FORGOTTEN || nowNs - one.greetedNs < SENT_NS) return;
    one.keptNs = nowNs;
    if (!this.events.forget(peer)) return;
    if (one.path !== null) this.dropPath(peer, false);
    this.pulses.unwatch(peer);
    one.channel.close();
    if (one.isClaimed) this.claimed--;
    this.peers[peer] = FORGOTTEN;
    this.freeNumbers.push(peer);
  }

  /** A carrier reports whether a peer that it watches is alive. It is up when it answers. */
  setAlive(peer: number, isAlive: boolean): void {
    if (this.isClosed || this.isDown || this.peers[peer].isUp === isAlive) return;
    if (isAlive) this.frame(peer, HELLO, 0, ANSWER);
    else this.lost(peer);
  }

  /** Greets the next peers, as far as there are free slots. */
  private greetMore(): void {
    const { peers, nowNs } = this;
    while (this.nextGreeted < peers.length && this.datagrams?.mayGreet && !this.isClosed) {
      const peer = this.nextGreeted++;
      const one = peers[peer];
      if (one.isWatched || one === FORGOTTEN) continue;
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
