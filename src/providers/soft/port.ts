/**
 * The port of one device: a UDP socket that receives its packets, and one socket for each source port from which packets
 * leave.
 */
import { FIRST_FLOW_PORT, FLOW_PORTS, flowLabelOf, sourcePortOf } from '../../roce/flow.ts';
import { ROCE_PORT } from '../../roce/icrc.ts';
import { BTH_BYTES, ICRC_BYTES } from '../../roce/opcodes.ts';
import { INBOUND, OUTBOUND } from '../../roce/pcapng.ts';
import * as P from '../../sim/kernel/packets.ts';
import { KeptViews } from '../../sim/memory/memory.ts';
import { type Ah, type Group, MULTICAST_QPN } from '../../sim/network/address.ts';
import type { Simulation } from '../../sim/simulation.ts';
import { CNP_NS } from '../../sim/transport/qp.ts';
import { IBV_QPT_UD } from '../../verbs/constants.ts';
import { IsoverbsError } from '../../verbs/errors.ts';
import type { PortCapture } from './capture.ts';
import { type Membership, Memberships } from './groups.ts';
import {
  BAD_ICRC,
  DATAGRAM_BYTES,
  DATAGRAM_PACKETS,
  type NativeUdp,
  NO_GID,
  ROW_GID,
  ROW_WORDS,
} from './native.ts';
import type { Peers } from './peers.ts';
import { SendQueue } from './send-queue.ts';
import {
  fromWire,
  MANAGEMENT,
  managementData,
  NOTIFICATION,
  toWire,
  writeManagement,
  writeNotification,
} from './wire.ts';

/** Bytes of the socket's buffers; the kernel grants less without privileges. */
const BUFFER_BYTES = 8 << 20;
/** Packets that the device sends between two reads of its socket, so that a peer in the same process can keep up. */
const SEND_BUDGET = 64;
/** Datagrams of one read of the socket, and reads in a row at most. */
const MAX_DATAGRAMS = 32;
const MAX_READS = 4;
/** Views of received payload that are kept: enough for one read. */
const RECEIVED_VIEWS = 8192;
/** The last two bits of a traffic class: "congestion experienced". */
const ECN_MASK = 3;
const CONGESTED = 3;
/** The traffic class of congestion notifications: DSCP 48, the default of NICs. */
const NOTIFICATION_CLASS = 48 << 2;
const READABLE = 1;
const WRITABLE = 2;
/** Spreads flows over few sockets (Fibonacci hashing), because small queue pair numbers give similar ports. */
const GOLDEN = 0x9e3779b1;
/** How many ports to try for the socket of a flow, because other sockets may use some. */
const PORT_TRIES = 8;

/** What became of packets. */
export interface PortCounters {
  sent: number;
  received: number;
  /** Received, but malformed. */
  malformed: number;
  /** Received with a wrong ICRC. */
  badIcrc: number;
  /** Received, but no queue pair accepts it: unknown number, wrong type, wrong address. */
  refused: number;
  /** Not sent, because the kernel refused the packet. */
  unsent: number;
  /** Congestion notifications that were sent, because packets were marked on their way, and received. */
  notificationsSent: number;
  notificationsReceived: number;
}

/** The address handle of the sender of a datagram, for the global route header that the receiver gets. */
class SenderAddress implements Ah {
  host = 0;
  pd = 0;
  peerHost = -1;
  group: Group | null = null;
  readonly sgid = new Uint8Array(16);
  dgid: Uint8Array = new Uint8Array(16);
  sl = 0;
  trafficClass = 0;
  flowLabel = 0;
  hopLimit = 0;
}

/** What a port requires of the provider. */
export interface PortOwner {
  readonly sim: Simulation;
  readonly peers: Peers;
  readonly native: NativeUdp;
  /** Number of source ports over which the device at this address spreads its flows. With 1, all packets leave from 4791. */
  flowsOf(gid: Uint8Array): number;
  /** Number of the network interface of a host. */
  ifindexOf(host: number): number;
  /** Where packets of this device are captured; null if they are not. */
  captureOf(host: number, gid: Uint8Array): PortCapture | null;
  /** A management datagram for queue pair 1 of a host; `from` is the sender's GID. */
  onManagement(host: number, from: Uint8Array, mad: Uint8Array): void;
  /** The kernel refused packets. */
  onRefused(): void;
  /** There is something to do: packets to read, or room to send. */
  onReady(): void;
}

export class SoftPort {
  readonly counters: PortCounters = {
    sent: 0,
    received: 0,
    malformed: 0,
    badIcrc: 0,
    refused: 0,
    unsent: 0,
    notificationsSent: 0,
    notificationsReceived: 0,
  };
  /** Whether a packet of the transport waits for room. */
  waiting = false;
  private readonly fd: number;
  /** The number of the device as a host of the simulation. */
  readonly host: number;
  private readonly gid: Uint8Array;
  private readonly owner: PortOwner;
  private readonly sender = new SenderAddress();
  /** The queue of the socket that receives, and the queues of flows by number; null until the first packet of a flow. */
  private readonly main: SendQueue;
  private readonly flows: (SendQueue | null)[];
  /** All of them that are open. */
  private readonly queues: SendQueue[];
  /** How many of them are full. */
  private full = 0;
  private budget = SEND_BUDGET;
  private readonly inSlab = new Uint8Array(MAX_DATAGRAMS * DATAGRAM_BYTES);
  private readonly inViews = new KeptViews(this.inSlab, RECEIVED_VIEWS);
  private readonly inRows = new Uint32Array(MAX_DATAGRAMS * DATAGRAM_PACKETS * ROW_WORDS);
  private readonly inGids = new Uint8Array(this.inRows.buffer);
  private readonly capture: PortCapture | null;
  private readonly memberships: Memberships;
  private readonly ifindex: number;
  private keepsAlive = false;

  /** @throws ConnectionError if the address cannot be bound, ConfigError if the capture cannot be written */
  constructor(owner: PortOwner, host: number, gid: Uint8Array) {
    this.owner = owner;
    this.host = host;
    this.gid = gid;
    this.ifindex = owner.ifindexOf(host);
    this.memberships = new Memberships(owner.native, gid, this.ifindex, () => owner.onReady());
    this.fd = owner.native.openUdp(gid, ROCE_PORT, BUFFER_BYTES, this.ifindex);
    this.main = new SendQueue(owner.native, this.fd, ROCE_PORT);
    this.queues = [this.main];
    const flows = owner.flowsOf(gid);
    this.flows = flows > 1 ? new Array(flows).fill(null) : [this.main];
    try {
      this.capture = owner.captureOf(host, gid);
    } catch (error) {
      owner.native.closeFd(this.fd);
      throw error;
    }
    this.watch(this.main);
  }

  close(): void {
    this.flush();
    this.memberships.close();
    for (const { fd } of this.queues) {
      this.owner.native.watchFd(fd, null, false, READABLE);
      this.owner.native.closeFd(fd);
    }
    this.capture?.close();
  }

  /** Whether waiting for packets keeps the process alive. */
  keepAlive(keeps: boolean): void {
    if (this.keepsAlive === keeps) return;
    this.keepsAlive = keeps;
    this.memberships.keepAlive(keeps);
    for (const queue of this.queues) this.watch(queue);
  }

  private watch(queue: SendQueue): void {
    const events = queue.blocked ? READABLE | WRITABLE : READABLE;
    const listener = queue === this.main ? () => this.owner.onReady() : () => this.onFlowReady(queue);
    this.owner.native.watchFd(queue.fd, listener, this.keepsAlive, events);
  }

  /** The socket of a flow has room again, or has received packets. No peer sends to its port, so they are discarded. */
  private onFlowReady(queue: SendQueue): void {
    this.owner.native.receiveUdp(queue.fd, this.inSlab, this.inRows, NO_GID);
    this.owner.onReady();
  }

  /** The queue for packets between two queue pairs, or with a flow label. */
  private queueOf(flowLabel: number, local: number, remote: number): SendQueue {
    const { flows } = this;
    if (flows.length === 1) return this.main;
    const port = sourcePortOf(flowLabel !== 0 ? flowLabel : flowLabelOf(local, remote));
    const flow = ((Math.imul(port, GOLDEN) >>> 16) * flows.length) >>> 16;
    const queue = flows[flow] ?? this.openFlow(flow);
    flows[flow] = queue;
    return queue;
  }

  /** Opens the socket of a flow at the first free port of its range. If none is free, the flow uses the receiving socket. */
  private openFlow(flow: number): SendQueue {
    const { native } = this.owner;
    const first = FIRST_FLOW_PORT + Math.floor((flow * FLOW_PORTS) / this.flows.length);
    for (let port = first; port < first + PORT_TRIES; port++) {
      try {
        const queue = new SendQueue(native, native.openUdp(this.gid, port, BUFFER_BYTES, this.ifindex), port);
        this.queues.push(queue);
        this.watch(queue);
        return queue;
      } catch (error) {
        if (!(error instanceof IsoverbsError)) throw error;
      }
    }
    return this.main;
  }

  hasRoom(): boolean {
    if (this.budget > 0 && this.full === 0) return true;
    this.waiting = true;
    return false;
  }

  /** Encodes packet `p` of the pool. It is lost if there is no room, as in a network. */
  send(p: number): void {
    const { world } = this.owner.sim;
    const pool = world.packets;
    const ah = pool.kind[p] === P.PKT_DATAGRAM ? pool.ah[p] : null;
    const isGroup = ah !== null && ah.group !== null;
    const peer = ah?.peerHost ?? world.qps[pool.source[p]]!.peerHost;
    const gid = isGroup ? ah.dgid : this.owner.peers.gidOf(peer);
    const path = ah ?? world.qps[pool.source[p]]!.attr.ah;
    const queue = this.queueOf(path?.flowLabel ?? 0, pool.source[p], pool.dest[p]);
    if (gid === undefined || !this.makeRoom(queue)) {
      this.counters.unsent++;
      return;
    }
    this.budget--;
    const classAndHops = (path?.trafficClass ?? 0) | ((path?.hopLimit ?? 0) << 8);
    this.append(queue, toWire(world, p, queue.slab, queue.nextAt), classAndHops, gid);
  }

  /** Sends a management datagram at once. It is lost if there is no room. */
  sendManagement(gid: Uint8Array, mad: Uint8Array): void {
    const { main } = this;
    if (!this.makeRoom(main)) {
      this.counters.unsent++;
      return;
    }
    this.append(main, writeManagement(mad, main.slab, main.nextAt), 0, gid);
    this.flush();
  }

  /** Whether a queue has room for a packet, perhaps after it has sent others. */
  private makeRoom(queue: SendQueue): boolean {
    if (queue.isFull) this.flushQueue(queue);
    return !queue.isFull;
  }

  private append(queue: SendQueue, bytes: number, classAndHops: number, gid: Uint8Array): void {
    queue.append(bytes, classAndHops, gid);
    if (queue.isFull) this.full++;
  }

  /** Hands the packets to the kernel. Those for which it has no room stay, and the port waits. */
  flush(): void {
    const { queues } = this;
    for (let i = 0; i < queues.length; i++) if (queues[i].count > 0) this.flushQueue(queues[i]);
  }

  private flushQueue(queue: SendQueue): void {
    const taken = queue.hand(this.gid);
    const refused = queue.refused(taken);
    this.counters.unsent += refused;
    if (refused > 0) this.owner.onRefused();
    if (this.capture !== null) for (let i = 0; i < taken; i++) this.capturePacket(i, queue);
    this.counters.sent += taken;
    if (taken > 0 && queue.isFull) this.full--;
    queue.drop(taken);
    if (queue.blocked === queue.count > 0) return;
    queue.blocked = queue.count > 0;
    this.watch(queue);
  }

  /** Captures packet `i` of a queue, or of those received. */
  private capturePacket(i: number, queue: SendQueue | null): void {
    const [slab, rows] = queue === null ? [this.inSlab, this.inRows] : [queue.slab, queue.rows];
    const row = i * ROW_WORDS;
    const [own, other] = [
      { gid: queue === null ? this.sender.dgid : this.gid, at: 0 },
      { gid: queue === null ? this.inGids : queue.gids, at: (row + ROW_GID) * 4 },
    ];
    const [source, dest] = queue === null ? [other, own] : [own, other];
    const facts = {
      source: source.gid,
      sourceAt: source.at,
      dest: dest.gid,
      destAt: dest.at,
      sourcePort: queue?.sourcePort ?? rows[row + 3] & 0xffff,
      identification: rows[row + 3] >>> 16,
      trafficClass: rows[row + 2] & 0xff,
      hopLimit: (rows[row + 2] >>> 8) & 0xff,
    };
    this.capture?.add(facts, slab, rows[row], rows[row + 1], queue === null ? INBOUND : OUTBOUND);
  }

  /** Joins or leaves a multicast group as the queue pairs of this device require. @throws ConnectionError */
  updateMembership(text: string, group: Group): void {
    const isMember = group.queuePairs.some((qp) => qp.host === this.host);
    this.memberships.update(text, group, isMember);
  }

  /** Reads the sockets and executes what has arrived. Then the device may send again. */
  receive(): void {
    this.read(this.fd, this.gid, null);
    const { list } = this.memberships;
    for (let i = 0; i < list.length; i++) this.read(list[i].fd, list[i].gid, list[i]);
    this.budget = SEND_BUDGET;
  }

  /** Reads the socket of the device's address, or of a group. */
  private read(fd: number, dest: Uint8Array, member: Membership | null): void {
    const { native } = this.owner;
    this.sender.dgid = dest;
    for (let reads = 0; reads < MAX_READS; reads++) {
      const got = native.receiveUdp(fd, this.inSlab, this.inRows, dest);
      for (let i = 0; i < got; i++) this.accept(i, member);
      if (got < MAX_DATAGRAMS) break;
    }
  }

  private accept(i: number, member: Membership | null): void {
    const { counters, inSlab, inRows } = this;
    const row = i * ROW_WORDS;
    const at = inRows[row];
    const length = inRows[row + 1];
    counters.received++;
    if (this.capture !== null) this.capturePacket(i, null);
    if (length < BTH_BYTES + ICRC_BYTES) {
      counters.malformed++;
      return;
    }
    if ((inRows[row + 2] & BAD_ICRC) !== 0) {
      counters.badIcrc++;
      return;
    }
    const { sim } = this.owner;
    const pool = sim.world.packets;
    const p = pool.take();
    const type = fromWire(sim.world, inSlab, this.inViews, at, length, p);
    if (type === NOTIFICATION) counters.notificationsReceived++;
    else if (type < 0 && type !== MANAGEMENT) counters.malformed++;
    else if (member !== null) this.acceptFromGroup(p, row, type, member);
    else if (type === MANAGEMENT) {
      const start = (row + ROW_GID) * 4;
      this.owner.onManagement(this.host, this.inGids.slice(start, start + 16), managementData());
    } else {
      const from = this.from(p, row);
      if (!sim.receive(this.host, from, type, p)) counters.refused++;
      else if ((inRows[row + 2] & ECN_MASK) === CONGESTED) this.notify(pool.dest[p], from);
    }
    pool.outside[p] = null;
    pool.release(p);
  }

  /** Executes a datagram to a multicast group. If `type` is not a type of queue pair, the fields of `p` are stale. */
  private acceptFromGroup(p: number, row: number, type: number, { group }: Membership): void {
    const { sim } = this.owner;
    if (type !== IBV_QPT_UD || sim.world.packets.dest[p] !== MULTICAST_QPN) this.counters.refused++;
    else {
      this.from(p, row);
      if (sim.receiveGroup(this.host, group, p) === 0) this.counters.refused++;
    }
  }

  /** Notifies the peer of a queue pair that a packet met congestion, as a NIC does: once per interval at most. */
  private notify(qpn: number, from: number): void {
    const { world } = this.owner.sim;
    const qp = world.qps[qpn];
    const gid = this.owner.peers.gidOf(from);
    const nowNs = world.clock[0];
    if (qp === undefined || gid === undefined || nowNs < qp.times[CNP_NS]) return;
    const queue = this.queueOf(qp.attr.ah?.flowLabel ?? 0, qpn, qp.peer);
    if (!this.makeRoom(queue)) return;
    qp.times[CNP_NS] = nowNs + world.params.cnpIntervalNs;
    this.counters.notificationsSent++;
    this.append(queue, writeNotification(qp.peer, queue.slab, queue.nextAt), NOTIFICATION_CLASS, gid);
  }

  /** The number of the sender: that of the peer of the packet's queue pair if its address is the same, otherwise -1. */
  private from(p: number, row: number): number {
    const { sim, peers } = this.owner;
    const pool = sim.world.packets;
    const start = (row + ROW_GID) * 4;
    if (pool.kind[p] === P.PKT_DATAGRAM) {
      const { sender } = this;
      for (let i = 0; i < 16; i++) sender.sgid[i] = this.inGids[start + i];
      sender.trafficClass = this.inRows[row + 2] & 0xff;
      sender.hopLimit = (this.inRows[row + 2] >>> 8) & 0xff;
      pool.ah[p] = sender;
      return -1;
    }
    const peer = sim.world.qps[pool.dest[p]]?.peerHost ?? -1;
    const gid = peers.gidOf(peer);
    if (gid === undefined) return -1;
    for (let i = 0; i < 16; i++) if (gid[i] !== this.inGids[start + i]) return -1;
    return peer;
  }
}
