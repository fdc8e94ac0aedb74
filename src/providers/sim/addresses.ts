/** Names and addresses of hosts, queue pairs and multicast groups, and checks of them as arguments. */

import type { CmAddress } from '../../verbs/connection-manager.ts';
import { ConnectionError, InvalidArgumentError, shown } from '../../verbs/errors.ts';
import { gidToBytes, gidToString, requireGid } from '../../verbs/gid.ts';
import { OTHER_PROCESS } from '../../verbs/suggestions.ts';
import type { AhAttr, GidEntry } from '../../verbs/types.ts';
import { requireInteger, requireObject } from './arguments.ts';

/** Names and addresses of the devices of a provider, and of those that they reach. */
export interface HostNames {
  /** Name of the provider. */
  readonly provider: string;
  /** Name of the device of a host. */
  deviceName(host: number): string;
  /** The address of a host as a GID. */
  gidOf(host: number): string;
  /** An entry of the GID table; beyond the host's addresses, the GID is '::'. */
  gidEntry(host: number, index: number): GidEntry;
  /**
   * The number of the host with this GID, in its shortest form, as attr.ah of a queue pair of the host `from` names it; -1
   * if unknown. @throws InvalidArgumentError if `from` cannot reach it
   */
  hostOf(gid: string, from: number, verb: string): number;
}

/** Simulated hosts: sim0, sim1, ... */
export function simNames(hosts: number): HostNames {
  const byGid = new Map(Array.from({ length: hosts }, (_, index) => [gidOf(index), index]));
  return {
    provider: 'sim',
    deviceName: (host) => `sim${host}`,
    gidOf,
    // As on mlx5, each address appears twice: for RoCE v1 and for RoCE v2.
    gidEntry: (host, index) => ({
      index,
      gid: index < 2 ? gidOf(host) : '::',
      type: index === 0 ? 'RoCE v1' : 'RoCE v2',
      ndevIfindex: 0,
    }),
    hostOf: (gid) => byGid.get(gid) ?? -1,
  };
}

const RANGES: [field: keyof AhAttr, min: number, max: number][] = [
  ['portNum', 1, 1],
  ['sgidIndex', 0, 1],
  ['hopLimit', 0, 255],
  ['trafficClass', 0, 255],
  ['flowLabel', 0, 0xfffff],
  ['sl', 0, 15],
];

/** The GID of an address, 16 bytes. `name` is the argument's name in errors. @throws InvalidArgumentError */
export function requireAddress(verb: string, name: string, ah: AhAttr | undefined): Uint8Array {
  requireObject(verb, name, ah);
  const attr = ah as AhAttr;
  for (const [field, min, max] of RANGES) {
    if (attr[field] !== undefined) requireInteger(verb, `${name}.${field}`, attr[field], min, max);
  }
  return requireGid(verb, `${name}.dgid`, attr.dgid);
}

/** Whether a GID is a multicast address: ff00::/8, or 224.0.0.0/4 mapped into IPv6. */
export function isGroup(gid: Uint8Array): boolean {
  if (gid[0] === 0xff) return true;
  const mapped = gid.subarray(0, 10).every((byte) => byte === 0) && gid[10] === 0xff && gid[11] === 0xff;
  return mapped && gid[12] >> 4 === 14;
}

/**
 * The GID of a multicast group, derived from its IP address as in RoCE v2. @throws InvalidArgumentError when
 * the address is not a multicast address
 */
export function groupGid(verb: string, group: CmAddress): string {
  requireObject(verb, 'group', group);
  const { address } = group;
  const bytes = bytesOf(address);
  if (bytes !== null && isGroup(bytes)) return gidToString(bytes);
  throw new InvalidArgumentError(
    `${verb}: group must be a multicast address (224.0.0.0/4 or ff00::/8), got ${shown(address)}`,
    { verb },
  );
}

function bytesOf(address: unknown): Uint8Array | null {
  if (typeof address !== 'string') return null;
  try {
    return gidToBytes(address.includes(':') ? address.split('%', 1)[0] : `::ffff:${address}`);
  } catch {
    return null;
  }
}

/** Stands for any host: all hosts of a fabric are in this process. */
export const ANY_HOST = -1;

const ANY_NAMES = new Set(['localhost', '127.0.0.1', '::1', '0.0.0.0', '::']);

/**
 * Index of a host by name ('sim0'), address or GID; ANY_HOST for 'localhost' and its synonyms. @throws
 * ConnectionError naming the existing hosts
 */
export function hostNamed(verb: string, hosts: number, name: string): number {
  if (ANY_NAMES.has(name)) return ANY_HOST;
  for (let i = 0; i < hosts; i++) {
    if (name === `sim${i}` || name === addressOf(i) || sameGid(name, gidOf(i))) return i;
  }
  const known = hosts === 1 ? 'sim0' : `sim0 .. sim${hosts - 1}`;
  throw new ConnectionError(
    `${verb}: no host '${name}' in this fabric; it has ${known} and localhost; ${OTHER_PROCESS}`,
  );
}

function sameGid(name: string, gid: string): boolean {
  try {
    return gidToString(gidToBytes(name)) === gid;
  } catch (error) {
    if (error instanceof InvalidArgumentError) return false;
    throw error;
  }
}

/** EUI-64 of host `index`, from a locally administered prefix. */
export function guidOf(index: number): string {
  const low = (index + 1).toString(16).padStart(8, '0');
  return `0215:53ff:${low.slice(0, 4)}:${low.slice(4)}`;
}

/** IPv4 address of host `index`. */
export function addressOf(index: number): string {
  return `10.0.${Math.floor(index / 250)}.${(index % 250) + 1}`;
}

export function gidOf(index: number): string {
  return `::ffff:${addressOf(index)}`;
}
