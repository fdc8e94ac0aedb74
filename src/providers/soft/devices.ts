/** The devices: one for each address of a network interface. */
import { readFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { IPV4_BYTES, IPV6_BYTES } from '../../roce/icrc.ts';
import * as C from '../../verbs/constants.ts';
import {
  ConfigError,
  ConnectionError,
  InvalidArgumentError,
  IsoverbsError,
  NoResourcesError,
} from '../../verbs/errors.ts';
import { gidToBytes, gidToString } from '../../verbs/gid.ts';

/** One device before it is opened. */
export interface SoftDevice {
  readonly name: string;
  /** Maximum bytes of payload per packet. */
  readonly mtuBytes: number;
  /** Number of the network interface; 0 if unknown. */
  readonly ifindex: number;
  /** Its address as a GID; the first of several if `tries` allows more. */
  gid: string;
  /**
   * How many addresses to try, from that one upwards: a second process on the loopback interface gets the next one, because
   * a port of an address belongs to one process.
   */
  readonly tries: number;
}

/** Addresses of the loopback network that processes share: 127.0.0.1 and those after it. */
const LOOPBACK_TRIES = 64;
/** Headers of a packet besides its payload: UDP, BTH, RETH, immediate, ICRC. */
const ROCE_BYTES = 8 + 12 + 16 + 4 + 4;
/** The first byte of the first IPv4 address of a multicast group; the broadcast address comes after all of them. */
const FIRST_GROUP = 224;
const MTUS = [4096, 2048, 1024, 512, 256];
/** The MTU of Ethernet, used if the kernel does not report that of the interface. */
const ETHERNET_BYTES = 1500;

/** The devices of these addresses, or of all interfaces if there are none. @throws ConfigError if a text is not an address */
export function softDevices(addresses: readonly string[]): SoftDevice[] {
  if (addresses.length > 0) {
    const here = interfacesByAddress();
    return addresses.map((text, index) => deviceAt(`soft${index}`, text, interfaceOf(text, here), 1));
  }
  const found = Object.entries(interfaces()).flatMap(([ndev, list]) =>
    (list ?? []).map((one) => ({ ...one, ndev })),
  );
  const usable = found.filter(({ family, scopeid }) => family === 'IPv4' || scopeid === 0);
  // The loopback interface comes first, so that soft0 is there on every machine.
  const sorted = [
    ...usable.filter(({ internal }) => internal),
    ...usable.filter(({ internal }) => !internal),
  ];
  return sorted.map(({ address, ndev }, index) =>
    deviceAt(`soft${index}`, address, ndev, address === '127.0.0.1' ? LOOPBACK_TRIES : 1),
  );
}

/** @throws NoResourcesError in a process without free descriptors */
function interfaces(): ReturnType<typeof networkInterfaces> {
  try {
    return networkInterfaces();
  } catch (cause) {
    const { message } = cause as Error;
    throw new NoResourcesError(
      `the network interfaces cannot be listed: ${message}; close files, or raise the limit of open files (ulimit -n)`,
      { cause },
    );
  }
}

/**
 * The interfaces of this host, by each of their addresses. If several have the same address, it is the first. The lookup is
 * slow on a host with many addresses.
 */
export function interfacesByAddress(): Map<string, string> {
  const all = Object.entries(interfaces()).reverse();
  return new Map(all.flatMap(([ndev, list]) => (list ?? []).map(({ address }) => [address, ndev] as const)));
}

/** The interface with this address, undefined if there is none; that of 127.0.0.1 has all of 127.0.0.0/8. */
export function interfaceOf(address: string, here: ReadonlyMap<string, string>): string | undefined {
  return here.get(address) ?? (address.startsWith('127.') ? here.get('127.0.0.1') : undefined);
}

/** A number that the kernel reports about an interface. */
function numberOf(ndev: string | undefined, file: string, otherwise: number): number {
  if (ndev === undefined) return otherwise;
  try {
    return Number(readFileSync(`/sys/class/net/${ndev}/${file}`, 'utf8')) || otherwise;
  } catch {
    return otherwise;
  }
}

/** The largest RoCE MTU whose packets from this address fit into the current MTU of its interface. */
export function mtuOf(address: string, ndev: string | undefined): number {
  const ipBytes = address.includes(':') ? IPV6_BYTES : IPV4_BYTES;
  const room = numberOf(ndev, 'mtu', ETHERNET_BYTES) - ipBytes - ROCE_BYTES;
  return MTUS.find((mtu) => mtu <= room) ?? MTUS[MTUS.length - 1];
}

function deviceAt(name: string, address: string, ndev: string | undefined, tries: number): SoftDevice {
  const gid = gidOfText(address);
  return { name, mtuBytes: mtuOf(address, ndev), ifindex: numberOf(ndev, 'ifindex', 0), gid, tries };
}

/** The GID of an address. @throws ConfigError if it is none, or if no device can have it */
function gidOfText(address: string): string {
  const refuse = (why: string, cause?: unknown) =>
    new ConfigError(`ISOVERBS_SOFT_ADDRESSES: '${address}' ${why}`, { cause });
  let bytes: Uint8Array;
  try {
    bytes = gidToBytes(address.includes(':') ? address : `::ffff:${address}`);
  } catch (cause) {
    throw refuse('is not an IPv4 or IPv6 address', cause);
  }
  const gid = gidToString(bytes);
  const v4 = isV4(gid);
  if (v4 ? bytes[12] === 0 : gid === '::')
    throw refuse('is not the address of one interface; name that address');
  if (v4 ? bytes[12] >= FIRST_GROUP : bytes[0] === 0xff) throw refuse('is a multicast or broadcast address');
  if (!v4 && bytes[0] === 0xfe && (bytes[1] & 0xc0) === 0x80) {
    throw refuse('is a link-local address, which these devices do not support; use a global address or IPv4');
  }
  return gid;
}

/**
 * Checks that packets from a device can reach an address: both have the same IP version, and those of the loopback
 * interface do not leave the host. @throws InvalidArgumentError
 */
export function requireReachable(verb: string, device: SoftDevice, gid: string): void {
  if (isV4(device.gid) !== isV4(gid)) {
    const why = 'one is an IPv4 address, the other an IPv6 address';
    throw unreachable(verb, device, gid, `${why}; open devices of the same IP version at both ends`);
  }
  requireSameHost(verb, device, gid);
}

/** Checks that the peer of a device on the loopback interface is on this host. @throws InvalidArgumentError */
export function requireSameHost(verb: string, device: SoftDevice, gid: string): void {
  if (!isLoopback(gidToBytes(device.gid)) || isLoopback(gidToBytes(gid))) return;
  if (interfacesByAddress().has(addressOf(gid))) return;
  const why =
    "the loopback interface reaches only this host; open the device with this host's address in the peer's network ('isoverbs devices' lists them), or set ISOVERBS_SOFT_ADDRESSES to it";
  throw unreachable(verb, device, gid, why);
}

function unreachable(verb: string, device: SoftDevice, gid: string, why: string): InvalidArgumentError {
  const [own, peer] = [addressOf(device.gid), addressOf(gid)];
  const text = `${verb}: ${device.name} (${own}) cannot reach ${peer}: ${why}`;
  return new InvalidArgumentError(text, { verb, errno: C.EINVAL });
}

/** What to do about an errno of bind(2). */
const WAYS_OUT: Readonly<Record<number, string>> = {
  [C.EADDRINUSE]:
    'another process or kernel soft-RoCE is using it: stop that one, or set ISOVERBS_SOFT_ADDRESSES to another address of this host',
  [C.EADDRNOTAVAIL]: 'no interface has this address: set ISOVERBS_SOFT_ADDRESSES to an address of this host',
  [C.EACCES]:
    'set net.ipv4.ip_unprivileged_port_start to 4791 or less, or run the program with CAP_NET_BIND_SERVICE',
};

/** Opens a device at its address, or at the first of its addresses that is free. @throws ConnectionError */
export function openAt<T>(device: SoftDevice, open: (gid: Uint8Array) => T): T {
  const first = device.gid;
  for (let tried = 1; ; tried++) {
    try {
      return open(gidToBytes(device.gid));
    } catch (cause) {
      const way = cause instanceof IsoverbsError ? WAYS_OUT[cause.errno ?? 0] : undefined;
      if (way === undefined) throw cause;
      const { message, errno } = cause as IsoverbsError;
      if (errno === C.EADDRINUSE && tried < device.tries) {
        device.gid = nextGid(device.gid);
        continue;
      }
      const address = addressOf(device.gid);
      device.gid = first;
      throw new ConnectionError(
        `openDevice: ${device.name} cannot use UDP port 4791 of ${address}: ${message}; ${way}`,
        { verb: 'openDevice', errno, cause },
      );
    }
  }
}

function nextGid(gid: string): string {
  const bytes = gidToBytes(gid);
  bytes[15]++;
  return gidToString(bytes);
}

/**
 * The address of a GID in its usual form. A GID that begins with ::ffff: need not be IPv4-mapped: ::ffff:0:1 is an IPv6
 * address.
 */
export function addressOf(gid: string): string {
  return isV4(gid) ? gid.slice(7) : gid;
}

/** Whether a GID has an IPv4 address. */
function isV4(gid: string): boolean {
  return gid.startsWith('::ffff:') && gid.includes('.');
}

/** Whether an address is one of the loopback interface: 127.0.0.0/8 or ::1. */
export function isLoopback(gid: Uint8Array): boolean {
  const address = addressOf(gidToString(gid));
  return address.startsWith('127.') || address === '::1';
}
