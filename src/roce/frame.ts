/** Ethernet, IP and UDP headers in front of RoCEv2 packets, as captures show them. */
import { IPV4_BYTES, IPV6_BYTES, ROCE_PORT, type Route, UDP_BYTES } from './icrc.ts';

const ETHERNET_BYTES = 14;
const PROTOCOL_UDP = 17;

/** Bytes of the headers in front of the BTH. */
export const frameHeaderBytes = (route: Route): number =>
  ETHERNET_BYTES + (route.source.length === 4 ? IPV4_BYTES : IPV6_BYTES) + UDP_BYTES;

/**
 * Writes these headers for a packet of `bytes` from BTH to ICRC. MAC addresses have 6 bytes. The UDP checksum is 0,
 * as RoCEv2 senders leave it over both versions of IP.
 */
export function writeFrameHeaders(
  route: Route,
  sourceMac: Uint8Array,
  destMac: Uint8Array,
  bytes: number,
  out: Uint8Array,
  offset: number,
): void {
  out.set(destMac, offset);
  out.set(sourceMac, offset + 6);
  const ipv4 = route.source.length === 4;
  put16(out, offset + 12, ipv4 ? 0x0800 : 0x86dd);
  const at = offset + ETHERNET_BYTES;
  const udpBytes = UDP_BYTES + bytes;
  const udp = ipv4 ? writeIpv4(route, udpBytes, out, at) : writeIpv6(route, udpBytes, out, at);
  put16(out, udp, route.sourcePort);
  put16(out, udp + 2, ROCE_PORT);
  put16(out, udp + 4, udpBytes);
  put16(out, udp + 6, 0);
}

function writeIpv4(route: Route, udpBytes: number, out: Uint8Array, at: number): number {
  out[at] = 0x45;
  out[at + 1] = route.trafficClass;
  put16(out, at + 2, IPV4_BYTES + udpBytes);
  put16(out, at + 4, route.identification);
  // The flag "do not fragment".
  put16(out, at + 6, 0x4000);
  out[at + 8] = route.hopLimit;
  out[at + 9] = PROTOCOL_UDP;
  put16(out, at + 10, 0);
  out.set(route.source, at + 12);
  out.set(route.dest, at + 16);
  let sum = 0;
  for (let i = 0; i < IPV4_BYTES; i += 2) sum += (out[at + i] << 8) | out[at + i + 1];
  sum = (sum & 0xffff) + (sum >>> 16);
  put16(out, at + 10, ~(sum + (sum >>> 16)));
  return at + IPV4_BYTES;
}

function writeIpv6(route: Route, udpBytes: number, out: Uint8Array, at: number): number {
  out[at] = 0x60 | (route.trafficClass >>> 4);
  out[at + 1] = ((route.trafficClass & 15) << 4) | ((route.flowLabel >>> 16) & 15);
  put16(out, at + 2, route.flowLabel);
  put16(out, at + 4, udpBytes);
  out[at + 6] = PROTOCOL_UDP;
  out[at + 7] = route.hopLimit;
  out.set(route.source, at + 8);
  out.set(route.dest, at + 24);
  return at + IPV6_BYTES;
}

function put16(out: Uint8Array, at: number, value: number): void {
  out[at] = value >>> 8;
  out[at + 1] = value;
}
