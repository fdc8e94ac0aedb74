/**
 * Global routing headers: the first 40 bytes of each receive of a UD queue pair. Over RoCE v2 with IPv4, the IPv4 header
 * is in the last 20 of them (ibv_init_ah_from_wc(3)).
 */
import { InvalidArgumentError } from './errors.ts';
import { gidToString } from './gid.ts';

/** Bytes of the header, for which each receive of a datagram needs room before the message. */
export const GRH_BYTES = 40;

const IPPROTO_UDP = 17;

/** The fields of a header: source, destination and path of the datagram. */
export interface Grh {
  /** 'RoCE v2' over IPv4 or IPv6, or 'IB' (which is RoCE v1 as well). */
  type: 'RoCE v2' | 'IB';
  sgid: string;
  /** The receiver's GID, or the group's. */
  dgid: string;
  trafficClass: number;
  flowLabel: number;
  hopLimit: number;
}

/** Reads the header at the start of a received datagram. @throws InvalidArgumentError if there is none */
export function parseGrh(bytes: Uint8Array): Grh {
  if (bytes.length < GRH_BYTES) {
    throw new InvalidArgumentError(`a GRH has ${GRH_BYTES} bytes, got ${bytes.length}`);
  }
  if (isIpv4(bytes)) return parseIpv4(bytes);
  if (bytes[0] >> 4 !== 6) {
    throw new InvalidArgumentError(
      'these 40 bytes are not a GRH: they contain neither an IPv6 nor an IPv4 header',
    );
  }
  return {
    type: bytes[6] === IPPROTO_UDP ? 'RoCE v2' : 'IB',
    sgid: gidToString(bytes.subarray(8, 24)),
    dgid: gidToString(bytes.subarray(24, 40)),
    trafficClass: ((bytes[0] & 0xf) << 4) | (bytes[1] >> 4),
    flowLabel: ((bytes[1] & 0xf) << 16) | (bytes[2] << 8) | bytes[3],
    hopLimit: bytes[7],
  };
}

/** Checks the IPv4 checksum, as libibverbs does, because the bytes before an IPv4 header are undefined. */
function isIpv4(bytes: Uint8Array): boolean {
  if (bytes[0] >> 4 !== 6) return bytes[20] >> 4 === 4;
  return bytes[20] === 0x45 && ipv4Sum(bytes) === 0xffff;
}

/** One's complement sum of the header at 20, its checksum included: 0xffff when the checksum is right. */
function ipv4Sum(bytes: Uint8Array): number {
  let sum = 0;
  for (let i = 20; i < GRH_BYTES; i += 2) sum += (bytes[i] << 8) | bytes[i + 1];
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return sum;
}

function parseIpv4(bytes: Uint8Array): Grh {
  const mapped = (at: number) => `::ffff:${bytes.subarray(at, at + 4).join('.')}`;
  return {
    type: 'RoCE v2',
    sgid: mapped(32),
    dgid: mapped(36),
    trafficClass: bytes[21],
    flowLabel: 0,
    hopLimit: bytes[28],
  };
}

/** Whether a GID is a group's: ff.., or a mapped IPv4 group (::ffff:224.0.0.0 and up). */
export function isMulticastGid(gid: string): boolean {
  if (/^ff/i.test(gid)) return true;
  const first = Number(/^::ffff:(\d+)\./i.exec(gid)?.[1]);
  return first >= 224 && first < 240;
}
