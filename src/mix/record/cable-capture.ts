/** Captures the packets on simulated cables in a pcapng file, as RoCEv2 over Ethernet and IP. */
import { closeSync, openSync, writeSync } from 'node:fs';
import { addressOf } from '../../providers/sim/addresses.ts';
import { encodePacket, RocePacket } from '../../roce/codec.ts';
import { frameHeaderBytes, writeFrameHeaders } from '../../roce/frame.ts';
import { type Route, sealPacket } from '../../roce/icrc.ts';
import * as O from '../../roce/opcodes.ts';
import {
  FRAME_OFFSET,
  INBOUND,
  interfaceBlock,
  OUTBOUND,
  packetBlockBytes,
  sectionBlock,
  writePacketBlock,
} from '../../roce/pcapng.ts';
import { CONGESTED, PKT_DATAGRAM } from '../../sim/kernel/packets.ts';
import type { Ah } from '../../sim/network/address.ts';
import {
  type CableObserver,
  cableEnds,
  NOTIFICATION,
  type Transmission,
  tapCables,
} from '../../sim/network/cable-tap.ts';
import { describePacket } from '../../sim/network/wire-format.ts';
import type { World } from '../../sim/world.ts';
import { ConfigError } from '../../verbs/errors.ts';
import type { RunObserver } from './run-observer.ts';

/** ECN: capable of it, and "congestion experienced". */
const ECT = 2;
const CE = 3;
const DEFAULT_HOP_LIMIT = 64;
/** The first port of the range for flows, which has 2^14. */
const FIRST_PORT = 0xc000;
const PORT_MASK = 0x3fff;

/** Room for the headers and the pad bytes of a frame. */
const OVERHEAD_BYTES = 160;
/** Blocks are sorted and written when there are this many bytes of them. */
const CHUNK_BYTES = 1 << 22;

export class CableCapture implements RunObserver, CableObserver {
  private readonly file: string;
  private readonly wanted: readonly string[] | null;
  private world!: World;
  private fd = -1;
  /** Number of the interface by end of a cable; -1: it is not captured. */
  private interfaces: number[] = [];
  private addresses: Uint8Array[] = [];
  private readonly packet = new RocePacket();
  private readonly route: Route = {
    source: new Uint8Array(4),
    dest: new Uint8Array(4),
    sourcePort: 0,
    identification: 0,
    trafficClass: 0,
    flowLabel: 0,
    hopLimit: DEFAULT_HOP_LIMIT,
  };
  /** Blocks that have not been written, and their times and places. */
  private blocks = Buffer.alloc(2 * CHUNK_BYTES);
  private used = 0;
  private entries: { readonly atNs: number; readonly at: number; readonly bytes: number }[] = [];

  /**
   * @param file which is overwritten
   * @param ends of cables ('host0', 'switch0.3') whose packets are captured; null: all
   */
  constructor(file: string, ends: readonly string[] | null) {
    this.file = file;
    this.wanted = ends;
  }

  /** @throws ConfigError for an end that does not exist */
  begin(world: World): void {
    const names = cableEnds(world);
    for (const end of this.wanted ?? []) {
      if (names.includes(end)) continue;
      throw new ConfigError(`pcap: no cable ends at '${end}'; use one of ${names.slice(0, 8).join(', ')}`);
    }
    this.world = world;
    this.addresses = world.hosts.map(({ index }) => Uint8Array.from(addressOf(index).split('.').map(Number)));
    this.fd = openSync(this.file, 'w');
    writeSync(this.fd, sectionBlock('isoverbs mix'));
    let count = 0;
    this.interfaces = names.map((name) => {
      if (this.wanted !== null && !this.wanted.includes(name)) return -1;
      writeSync(this.fd, interfaceBlock(name, `simulated cable at ${name}`));
      return count++;
    });
    tapCables(world, this);
  }

  sent(transmission: Transmission): void {
    const { from, to, leftNs, arrivesNs, isLost } = transmission;
    const out = this.interfaces[from];
    if (out >= 0) this.add(transmission, out, leftNs, OUTBOUND);
    const into = isLost ? undefined : this.interfaces[to];
    if (into !== undefined && into >= 0) this.add(transmission, into, arrivesNs, INBOUND);
  }

  private add(transmission: Transmission, interfaceNumber: number, atNs: number, direction: number): void {
    const { packets, clock } = this.world;
    const payloadBytes = transmission.packet === NOTIFICATION ? 0 : packets.length[transmission.packet];
    const most = packetBlockBytes(payloadBytes + OVERHEAD_BYTES);
    if (this.used + most > CHUNK_BYTES) this.write(clock[0]);
    if (this.used + most > this.blocks.length) {
      this.blocks = Buffer.concat([this.blocks, Buffer.alloc(this.blocks.length)]);
    }
    const frameBytes = this.frame(transmission, this.blocks, this.used + FRAME_OFFSET);
    const bytes = writePacketBlock(
      this.blocks,
      this.used,
      frameBytes,
      interfaceNumber,
      Math.floor(atNs),
      direction,
    );
    this.entries.push({ atNs, at: this.used, bytes });
    this.used += bytes;
  }

  /** Writes the frame of a packet. @returns its bytes */
  private frame(transmission: Transmission, out: Buffer, offset: number): number {
    const { world, packet, route } = this;
    const { source: qp, packet: p } = transmission;
    packet.migrated = p !== NOTIFICATION;
    if (p === NOTIFICATION) this.describeNotification(transmission);
    else describePacket(world.packets, p, qp, world.payload, packet);
    this.routeOf(transmission);
    const headerBytes = frameHeaderBytes(route);
    const at = offset + headerBytes;
    const bytes = sealPacket(route, out, at, encodePacket(packet, out, at));
    writeFrameHeaders(route, macOf(route.source), macOf(route.dest), bytes, out, offset);
    return headerBytes + bytes;
  }

  private describeNotification({ source }: Transmission): void {
    const { packet } = this;
    packet.opcode = O.CNP;
    packet.solicited = packet.ackRequest = false;
    packet.becn = true;
    packet.destQp = source.peer;
    packet.psn = 0;
  }

  private routeOf({ packet: p, source: qp, toHost }: Transmission): void {
    const { world, route } = this;
    const { packets, params } = world;
    const ah = p !== NOTIFICATION && packets.kind[p] === PKT_DATAGRAM ? packets.ah[p] : null;
    const path = ah ?? qp.attr.ah;
    route.source = this.addresses[qp.host];
    route.dest = this.addresses[toHost] ?? groupAddress(ah);
    const dest = this.packet.destQp;
    route.sourcePort = FIRST_PORT | ((qp.qpn ^ dest) & PORT_MASK);
    const isMarked = p !== NOTIFICATION && (packets.flags[p] & CONGESTED) !== 0;
    const ecn = params.congestionControl === 'none' ? 0 : ECT;
    route.trafficClass = ((path?.trafficClass ?? 0) & ~3) | (isMarked ? CE : ecn);
    route.hopLimit = path?.hopLimit || DEFAULT_HOP_LIMIT;
  }

  /** Writes the blocks up to a time: whatever happens later has a later time. */
  private write(untilNs: number): void {
    const { entries, blocks } = this;
    // Packets that leave one port are in order, those of several ports are not.
    entries.sort((a, b) => a.atNs - b.atNs || a.at - b.at);
    const behind = entries.findIndex(({ atNs }) => atNs > untilNs);
    const count = behind < 0 ? entries.length : behind;
    const take = (some: typeof entries) =>
      Buffer.concat(some.map(({ at, bytes }) => blocks.subarray(at, at + bytes)));
    if (count > 0) writeSync(this.fd, take(entries.slice(0, count)));
    const rest = take(entries.slice(count));
    rest.copy(blocks);
    this.used = 0;
    this.entries = entries.slice(count).map(({ atNs, bytes }) => {
      const at = this.used;
      this.used += bytes;
      return { atNs, at, bytes };
    });
  }

  end(): void {
    if (this.fd < 0) return;
    this.write(this.world.clock[0]);
    closeSync(this.fd);
    this.fd = -1;
  }
}

/** The address of a multicast group: IPv4 as the last four bytes of its GID. */
const groupAddress = (ah: Ah | null): Uint8Array => ah?.dgid.subarray(12) ?? new Uint8Array(4);

/** A locally administered MAC address from an IPv4 address; that of the group for a multicast address. */
function macOf(address: Uint8Array): Uint8Array {
  const [a, b, c, d] = address;
  return a >> 4 === 14 ? Uint8Array.of(1, 0, 0x5e, b & 0x7f, c, d) : Uint8Array.of(2, 0, a, b, c, d);
}
