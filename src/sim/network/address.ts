/**
 * Destinations of datagrams: address handles, multicast groups, and the global route header that receivers
 * get.
 */
import type { Qp } from '../transport/qp.ts';

/** Stands for a destination host: all members of the group. */
export const MULTICAST = -2;

/** The queue pair number of datagrams to a multicast group. */
export const MULTICAST_QPN = 0xffffff;

/** Size of the header in front of each received datagram. */
export const GRH_BYTES = 40;
const IPV4_HEADER_BYTES = 20;
/** Header bytes: UDP 8, BTH 12, DETH 8, invariant CRC 4. */
const ROCE_BYTES = 32;
const IMM_BYTES = 4;
const PROTOCOL_UDP = 17;

/** Queue pairs attached to one group GID, sorted by host. */
export interface Group {
  readonly queuePairs: Qp[];
}

/** Groups by GID. A group is never removed, because address handles refer to it. */
export class Groups {
  private readonly byGid = new Map<string, Group>();

  at(gid: string): Group {
    let group = this.byGid.get(gid);
    if (group === undefined) {
      group = { queuePairs: [] };
      this.byGid.set(gid, group);
    }
    return group;
  }

  /** Returns false when the queue pair was attached already. */
  attach(gid: string, qp: Qp): boolean {
    const { queuePairs: members } = this.at(gid);
    if (members.includes(qp)) return false;
    const behind = members.findIndex((member) => member.host > qp.host);
    members.splice(behind < 0 ? members.length : behind, 0, qp);
    return true;
  }

  /** Returns false when the queue pair was not attached. */
  detach(gid: string, qp: Qp): boolean {
    const { queuePairs: members } = this.at(gid);
    const at = members.indexOf(qp);
    if (at < 0) return false;
    members.splice(at, 1);
    return true;
  }
}

/** A resolved address handle. GIDs have 16 bytes. */
export interface Ah {
  readonly host: number;
  readonly pd: number;
  /** Destination host; -1 when unknown, MULTICAST for a group. */
  readonly peerHost: number;
  readonly group: Group | null;
  readonly sgid: Uint8Array;
  readonly dgid: Uint8Array;
  /** Service level. */
  readonly sl: number;
  readonly trafficClass: number;
  readonly flowLabel: number;
  readonly hopLimit: number;
}

function isIpv4(gid: Uint8Array): boolean {
  for (let i = 0; i < 10; i++) if (gid[i] !== 0) return false;
  return gid[10] === 0xff && gid[11] === 0xff;
}

/**
 * Writes the header of the IP packet that carried a datagram, as RoCE v2 reports it: IPv4 uses the last 20
 * bytes.
 */
export function writeGrh(to: Uint8Array, at: number, ah: Ah, payloadBytes: number, withImm: boolean): void {
  const padded = (payloadBytes + 3) & ~3;
  const udpBytes = ROCE_BYTES + padded + (withImm ? IMM_BYTES : 0);
  to.fill(0, at, at + GRH_BYTES);
  if (isIpv4(ah.dgid)) writeIpv4(to, at + GRH_BYTES - IPV4_HEADER_BYTES, ah, udpBytes);
  else writeIpv6(to, at, ah, udpBytes);
}

function writeIpv4(to: Uint8Array, at: number, ah: Ah, udpBytes: number): void {
  to[at] = 0x45;
  to[at + 1] = ah.trafficClass;
  put16(to, at + 2, IPV4_HEADER_BYTES + udpBytes);
  // The flag "do not fragment".
  to[at + 6] = 0x40;
  to[at + 8] = ah.hopLimit;
  to[at + 9] = PROTOCOL_UDP;
  to.set(ah.sgid.subarray(12), at + 12);
  to.set(ah.dgid.subarray(12), at + 16);
  let sum = 0;
  for (let i = 0; i < IPV4_HEADER_BYTES; i += 2) sum += (to[at + i] << 8) | to[at + i + 1];
  sum = (sum & 0xffff) + (sum >> 16);
  put16(to, at + 10, ~(sum + (sum >> 16)) & 0xffff);
}

function writeIpv6(to: Uint8Array, at: number, ah: Ah, udpBytes: number): void {
  to[at] = 0x60 | (ah.trafficClass >> 4);
  to[at + 1] = ((ah.trafficClass & 15) << 4) | ((ah.flowLabel >> 16) & 15);
  put16(to, at + 2, ah.flowLabel & 0xffff);
  put16(to, at + 4, udpBytes);
  to[at + 6] = PROTOCOL_UDP;
  to[at + 7] = ah.hopLimit;
  to.set(ah.sgid, at + 8);
  to.set(ah.dgid, at + 24);
}

function put16(to: Uint8Array, at: number, value: number): void {
  to[at] = value >> 8;
  to[at + 1] = value & 255;
}
