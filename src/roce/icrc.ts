/**
 * The invariant CRC (ICRC) of RoCEv2 packets: CRC-32 of Ethernet over the fields that no switch or router changes
 * (InfiniBand annex A17.3.3). The headers of IP and UDP are covered too, with the fields that may change set to ones.
 */
import { crc32 } from 'node:zlib';
import { ICRC_BYTES } from './opcodes.ts';

/** UDP port of RoCEv2. */
export const ROCE_PORT = 4791;
export const UDP_BYTES = 8;
export const IPV4_BYTES = 20;
export const IPV6_BYTES = 40;
const PROTOCOL_UDP = 17;
/** Eight bytes of ones stand for the link header of InfiniBand. */
const LINK_BYTES = 8;
const FIRST_OF_IP = LINK_BYTES;

/** The IP and UDP headers of packets between two addresses. A record serves any number of packets. */
export interface Route {
  /** Addresses of 4 bytes (IPv4) or 16 bytes (IPv6); both have the same length. */
  source: Uint8Array;
  dest: Uint8Array;
  sourcePort: number;
  /** IPv4: the identification of this packet. */
  identification: number;
  /** Type of service or traffic class, the ECN bits included. */
  trafficClass: number;
  /** IPv6 only. */
  flowLabel: number;
  hopLimit: number;
}

/** The headers in front of the BTH, and the BTH, as the ICRC covers them. */
const covered = new Uint8Array(LINK_BYTES + IPV6_BYTES + UDP_BYTES + 12).fill(0xff);

const TABLE = Int32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = (crc & 1) !== 0 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  return crc;
});

/** Continues a CRC, inverted as the algorithm keeps it between bytes. */
function addBytes(crc: number, buf: Uint8Array, from: number, to: number): number {
  let sum = crc;
  for (let i = from; i < to; i++) sum = (sum >>> 8) ^ TABLE[(sum ^ buf[i]) & 0xff];
  return sum;
}

/** From this length on, a view and a call of zlib cost less than the table. */
const LONG_BYTES = 192;

/**
 * The ICRC of a packet: `bytes` of `buf` from its BTH at `offset` on, without the ICRC. Long packets allocate one view.
 * @returns an unsigned 32-bit number, which the wire has with its least significant byte first
 */
export function icrcOf(route: Route, buf: Uint8Array, offset: number, bytes: number): number {
  const udpBytes = UDP_BYTES + bytes + ICRC_BYTES;
  let at = route.source.length === 4 ? coverIpv4(route, udpBytes) : coverIpv6(route, udpBytes);
  put16(at, route.sourcePort);
  put16(at + 2, ROCE_PORT);
  put16(at + 4, udpBytes);
  put16(at + 6, 0xffff);
  at += UDP_BYTES;
  for (let i = 0; i < 12; i++) covered[at + i] = buf[offset + i];
  // The congestion marks and the reserved bits next to them.
  covered[at + 4] = 0xff;
  const crc = addBytes(-1, covered, 0, at + 12);
  const end = offset + bytes;
  if (bytes < LONG_BYTES) return ~addBytes(crc, buf, offset + 12, end) >>> 0;
  return crc32(buf.subarray(offset + 12, end), ~crc >>> 0);
}

/** Returns the end of the header in `covered`. */
function coverIpv4(route: Route, udpBytes: number): number {
  const at = FIRST_OF_IP;
  covered[at] = 0x45;
  covered[at + 1] = 0xff;
  put16(at + 2, IPV4_BYTES + udpBytes);
  put16(at + 4, route.identification);
  // The flag "do not fragment".
  put16(at + 6, 0x4000);
  covered[at + 8] = 0xff;
  covered[at + 9] = PROTOCOL_UDP;
  put16(at + 10, 0xffff);
  for (let i = 0; i < 4; i++) {
    covered[at + 12 + i] = route.source[i];
    covered[at + 16 + i] = route.dest[i];
  }
  return at + IPV4_BYTES;
}

function coverIpv6(route: Route, udpBytes: number): number {
  const at = FIRST_OF_IP;
  covered[at] = 0x6f;
  covered[at + 1] = 0xff;
  put16(at + 2, 0xffff);
  put16(at + 4, udpBytes);
  covered[at + 6] = PROTOCOL_UDP;
  covered[at + 7] = 0xff;
  for (let i = 0; i < 16; i++) {
    covered[at + 8 + i] = route.source[i];
    covered[at + 24 + i] = route.dest[i];
  }
  return at + IPV6_BYTES;
}

function put16(at: number, value: number): void {
  covered[at] = value >>> 8;
  covered[at + 1] = value;
}

/** Appends the ICRC to the `bytes` of a packet. @returns the bytes with it */
export function sealPacket(route: Route, buf: Uint8Array, offset: number, bytes: number): number {
  const crc = icrcOf(route, buf, offset, bytes);
  const at = offset + bytes;
  buf[at] = crc;
  buf[at + 1] = crc >>> 8;
  buf[at + 2] = crc >>> 16;
  buf[at + 3] = crc >>> 24;
  return bytes + ICRC_BYTES;
}

/** The ICRC at the end of a packet of `length` bytes, as an unsigned number. */
export function readIcrc(buf: Uint8Array, offset: number, length: number): number {
  const at = offset + length - ICRC_BYTES;
  return (buf[at] | (buf[at + 1] << 8) | (buf[at + 2] << 16) | (buf[at + 3] << 24)) >>> 0;
}

/** Whether the ICRC of a received packet is right. `length` includes it and is at least that of BTH and ICRC. */
export function isSealed(route: Route, buf: Uint8Array, offset: number, length: number): boolean {
  return icrcOf(route, buf, offset, length - ICRC_BYTES) === readIcrc(buf, offset, length);
}
