/** The port of one device: a UDP socket, the packets that leave through it, and those that it receives. */
import { ROCE_PORT } from '../../roce/icrc.ts';
import { BTH_BYTES, ICRC_BYTES } from '../../roce/opcodes.ts';
import { INBOUND, OUTBOUND } from '../../roce/pcapng.ts';
import * as P from '../../sim/kernel/packets.ts';
import type { Ah, Group } from '../../sim/network/address.ts';
import type { Simulation } from '../../sim/simulation.ts';
import { CNP_NS } from '../../sim/transport/qp.ts';
import type { PortCapture } from './capture.ts';
import {
  BAD_ICRC,
  DATAGRAM_BYTES,
  DATAGRAM_PACKETS,
  MAX_BATCH,
  type NativeUdp,
  ROW_GID,
  ROW_WORDS,
} from './native.ts';
import type { Peers } from './peers.ts';
import { fromWire, NOTIFICATION, toWire, writeNotification } from './wire.ts';

/** Room for one packet: the largest MTU, and headers. */
const STRIDE_BYTES = 4096 + 128;
/** Bytes of the socket's buffers; the kernel grants less without privileges. */
const BUFFER_BYTES = 8 << 20;
/** Packets that the device sends between two reads of its socket, so that a peer in the same process can keep up. */
const SEND_BUDGET = 64;
/** Datagrams of one read of the socket, and reads in a row at most. */
const MAX_DATAGRAMS = 32;
const MAX_READS = 4;
/** The last two bits of a traffic class: "congestion experienced". */
const ECN_MASK = 3;
const CONGESTED = 3;
/** The traffic class of congestion notifications: DSCP 48, as NICs have it by default. */
const NOTIFICATION_CLASS = 48 << 2;
const READABLE = 1;
const WRITABLE = 2;

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
  readonly dgid = new Uint8Array(16);
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
  /** Where packets of this device are captured; null if they are not. */
  captureOf(host: number, gid: Uint8Array): PortCapture | null;
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
  /** The host of the simulation that the device is. */
  readonly host: number;
  private readonly gid: Uint8Array;
  private readonly owner: PortOwner;
  private readonly sender = new SenderAddress();
  private readonly outSlab = new Uint8Array(MAX_BATCH * STRIDE_BYTES);
  private readonly outRows = new Uint32Array(MAX_BATCH * ROW_WORDS);
  private readonly outGids = new Uint8Array(this.outRows.buffer);
  private out = 0;
  private budget = SEND_BUDGET;
  private readonly inSlab = new Uint8Array(MAX_DATAGRAMS * DATAGRAM_BYTES);
  private readonly inRows = new Uint32Array(MAX_DATAGRAMS * DATAGRAM_PACKETS * ROW_WORDS);
  private readonly inGids = new Uint8Array(this.inRows.buffer);
  private readonly capture: PortCapture | null;
  private keepsAlive = false;
  private blocked = false;

  /** @throws ConnectionError if the address cannot be bound, ConfigError if the capture cannot be written */
  constructor(owner: PortOwner, host: number, gid: Uint8Array) {
    this.owner = owner;
    this.host = host;
    this.gid = gid;
    this.sender.dgid.set(gid);
    this.fd = owner.native.openUdp(gid, ROCE_PORT, BUFFER_BYTES);
    try {
      this.capture = owner.captureOf(host, gid);
    } catch (error) {
      owner.native.closeFd(this.fd);
      throw error;
    }
    this.watch();
  }

  close(): void {
    this.flush();
    this.owner.native.watchFd(this.fd, null, false, READABLE);
    this.owner.native.closeFd(this.fd);
    this.capture?.close();
  }

  /** Whether waiting for packets keeps the process alive. */
  keepAlive(keeps: boolean): void {
    if (this.keepsAlive === keeps) return;
    this.keepsAlive = keeps;
    this.watch();
  }

  private watch(): void {
    const events = this.blocked ? READABLE | WRITABLE : READABLE;
    this.owner.native.watchFd(this.fd, () => this.owner.onReady(), this.keepsAlive, events);
  }

  hasRoom(): boolean {
    if (this.budget > 0 && this.out < MAX_BATCH) return true;
    this.waiting = true;
    return false;
  }

  /** Encodes packet `p` of the pool. It is lost if there is no room, as in a network. */
  send(p: number): void {
    if (this.out === MAX_BATCH) this.flush();
    const { world } = this.owner.sim;
    const pool = world.packets;
    const ah = pool.kind[p] === P.PKT_DATAGRAM ? pool.ah[p] : null;
    const gid = this.owner.peers.gidOf(ah?.peerHost ?? world.qps[pool.source[p]]!.peerHost);
    if (this.out === MAX_BATCH || gid === undefined) {
      this.counters.unsent++;
      return;
    }
    this.budget--;
    const at = this.out * STRIDE_BYTES;
    const path = ah ?? world.qps[pool.source[p]]!.attr.ah;
    const classAndHops = (path?.trafficClass ?? 0) | ((path?.hopLimit ?? 0) << 8);
    this.append(at, toWire(world, p, this.outSlab, at), classAndHops, gid);
  }

  /** Adds the row of a packet that is in the slab, without its ICRC. */
  private append(at: number, bytes: number, classAndHops: number, gid: Uint8Array): void {
    const row = this.out * ROW_WORDS;
    this.outRows[row] = at;
    this.outRows[row + 1] = bytes + ICRC_BYTES;
    this.outRows[row + 2] = classAndHops;
    this.outGids.set(gid, (row + ROW_GID) * 4);
    this.out++;
  }

  /** Hands the packets to the kernel. Those for which it has no room stay, and the port waits. */
  flush(): void {
    if (this.out === 0) return;
    const { outRows, out } = this;
    const taken = this.owner.native.sendUdp(this.fd, this.outSlab, outRows, out, ROCE_PORT, this.gid);
    let refused = 0;
    for (let i = 0; i < taken; i++) if ((outRows[i * ROW_WORDS + 3] & 0xffff) !== 0) refused++;
    this.counters.unsent += refused;
    if (refused > 0) this.owner.onRefused();
    if (this.capture !== null) for (let i = 0; i < taken; i++) this.capturePacket(i, OUTBOUND);
    this.counters.sent += taken;
    this.out = out - taken;
    if (taken > 0 && this.out > 0) this.moveUp(taken);
    if (this.blocked === this.out > 0) return;
    this.blocked = this.out > 0;
    this.watch();
  }

  private capturePacket(i: number, direction: number): void {
    const isOut = direction === OUTBOUND;
    const [slab, rows] = isOut ? [this.outSlab, this.outRows] : [this.inSlab, this.inRows];
    const row = i * ROW_WORDS;
    const [own, other] = [
      { gid: this.gid, at: 0 },
      { gid: isOut ? this.outGids : this.inGids, at: (row + ROW_GID) * 4 },
    ];
    const [source, dest] = isOut ? [own, other] : [other, own];
    const facts = {
      source: source.gid,
      sourceAt: source.at,
      dest: dest.gid,
      destAt: dest.at,
      sourcePort: isOut ? ROCE_PORT : rows[row + 3] & 0xffff,
      identification: rows[row + 3] >>> 16,
      trafficClass: rows[row + 2] & 0xff,
      hopLimit: (rows[row + 2] >>> 8) & 0xff,
    };
    this.capture?.add(facts, slab, rows[row], rows[row + 1], direction);
  }

  private moveUp(taken: number): void {
    const { outRows, outSlab } = this;
    outSlab.copyWithin(0, taken * STRIDE_BYTES, (taken + this.out) * STRIDE_BYTES);
    outRows.copyWithin(0, taken * ROW_WORDS, (taken + this.out) * ROW_WORDS);
    for (let i = 0; i < this.out; i++) outRows[i * ROW_WORDS] = i * STRIDE_BYTES;
  }

  /** Reads the socket and executes what has arrived. Then the device may send again. */
  receive(): void {
    const { native } = this.owner;
    for (let reads = 0; reads < MAX_READS; reads++) {
      const got = native.receiveUdp(this.fd, this.inSlab, this.inRows, this.gid);
      for (let i = 0; i < got; i++) this.accept(i);
      if (got < MAX_DATAGRAMS) break;
    }
    this.budget = SEND_BUDGET;
  }

  private accept(i: number): void {
    const { counters, inSlab, inRows } = this;
    const row = i * ROW_WORDS;
    const at = inRows[row];
    const length = inRows[row + 1];
    counters.received++;
    if (this.capture !== null) this.capturePacket(i, INBOUND);
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
    const type = fromWire(sim.world, inSlab, at, length, p);
    if (type === NOTIFICATION) counters.notificationsReceived++;
    else if (type < 0) counters.malformed++;
    else {
      const from = this.from(p, row);
      if (!sim.receive(this.host, from, type, p)) counters.refused++;
      else if ((inRows[row + 2] & ECN_MASK) === CONGESTED) this.notify(pool.dest[p], from);
    }
    pool.release(p);
  }

  /** Tells the peer of a queue pair that a packet met congestion, as a NIC does: once in a while for each queue pair. */
  private notify(qpn: number, from: number): void {
    const { world } = this.owner.sim;
    const qp = world.qps[qpn];
    const gid = this.owner.peers.gidOf(from);
    const nowNs = world.clock[0];
    if (qp === undefined || gid === undefined || nowNs < qp.times[CNP_NS]) return;
    if (this.out === MAX_BATCH) this.flush();
    if (this.out === MAX_BATCH) return;
    qp.times[CNP_NS] = nowNs + world.params.cnpIntervalNs;
    this.counters.notificationsSent++;
    const at = this.out * STRIDE_BYTES;
    this.append(at, writeNotification(qp.peer, this.outSlab, at), NOTIFICATION_CLASS, gid);
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
