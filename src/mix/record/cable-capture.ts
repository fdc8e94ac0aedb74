/** Captures the packets on simulated cables in a pcapng file, as RoCEv2 over Ethernet and IP. */
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
  sectionBlock,
  writePacketBlock,
} from '../../roce/pcapng.ts';
import { CONGESTED, PKT_DATAGRAM, SLAB_BYTES } from '../../sim/kernel/packets.ts';
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
import { OrderedFile } from './ordered-file.ts';
import type { RunObserver } from './run-observer.ts';

/** ECN: capable of it, and "congestion experienced". */
const ECT = 2;
const CE = 3;
const DEFAULT_HOP_LIMIT = 64;
/** The first port of the range for flows, which has 2^14. */
const FIRST_PORT = 0xc000;
const PORT_MASK = 0x3fff;

/** Room for a block: the largest packet, and headers. */
const BLOCK_BYTES = SLAB_BYTES + 256;

export class CableCapture implements RunObserver, CableObserver {
  private readonly path: string;
  private readonly wanted: readonly string[] | null;
  private world!: World;
  private file: OrderedFile | null = null;
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
  private readonly block = Buffer.alloc(BLOCK_BYTES);

  /**
   * @param path of the file, which is overwritten
   * @param ends of cables ('host0', 'switch0.3') whose packets are captured; null: all
   */
  constructor(path: string, ends: readonly string[] | null) {
    this.path = path;
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
    const file = new OrderedFile(this.path, world.clock);
    this.file = file;
    file.write(sectionBlock('isoverbs mix'));
    let count = 0;
    this.interfaces = names.map((name) => {
      if (this.wanted !== null && !this.wanted.includes(name)) return -1;
      file.write(interfaceBlock(name, `simulated cable at ${name}`));
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
    const { block } = this;
    const frameBytes = this.frame(transmission, block, FRAME_OFFSET);
    const bytes = writePacketBlock(block, 0, frameBytes, interfaceNumber, Math.floor(atNs), direction);
    this.file?.add(atNs, Uint8Array.prototype.slice.call(block, 0, bytes));
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

  end(): void {
    this.file?.flush();
    this.file?.close();
    this.file = null;
  }
}

/** The address of a multicast group: IPv4 as the last four bytes of its GID. */
const groupAddress = (ah: Ah | null): Uint8Array => ah?.dgid.subarray(12) ?? new Uint8Array(4);

/** A locally administered MAC address from an IPv4 address; that of the group for a multicast address. */
function macOf(address: Uint8Array): Uint8Array {
  const [a, b, c, d] = address;
  return a >> 4 === 14 ? Uint8Array.of(1, 0, 0x5e, b & 0x7f, c, d) : Uint8Array.of(2, 0, a, b, c, d);
}
