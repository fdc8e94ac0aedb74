/** The multicast group of a test (--mcg): its GID, and how an end joins it. */
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import type { Context } from '../objects/index.ts';
import { ConfigError, type GidEntry, gidToBytes, gidToString, isMulticastGid } from '../verbs/index.ts';

/** Number of the queue pair that a message to a group names. */
export const GROUP_QPN = 0xffffff;
/**
 * The default groups. That of perftest is ff01:0:2:c985::, but packets to it do not leave an interface (RFC 4291, 2.7), so
 * that Linux drops them. This one is the same with the scope of a site. GIDs of IPv4 addresses require another group, because
 * they cannot reach one of IPv6.
 */
const GROUP = 'ff05:0:2:c985::';
const GROUP_OF_IPV4 = '::ffff:239.2.201.132';
/** perftest's spelling of a group: the 16 bytes of its GID as numbers. */
const BYTES = /^(0x[0-9a-f]{1,2}|\d{1,3})(:(0x[0-9a-f]{1,2}|\d{1,3})){15}$/i;

/** The GID of a group, from its text or from perftest's spelling of it. @throws ConfigError */
export function groupGid(text: string): string {
  try {
    const bytes = BYTES.test(text) ? Uint8Array.from(text.split(':'), Number) : gidToBytes(text);
    const gid = gidToString(bytes);
    if (isMulticastGid(gid)) return gid;
  } catch {
    // Explained below.
  }
  throw new ConfigError(
    `--MGID takes the GID of a multicast group, such as ff05::1, ::ffff:239.1.2.3 or 255:5:0:0:0:0:0:0:0:0:0:0:0:0:0:1, got '${text}'`,
  );
}

const isIpv4 = (gid: string) => gid.toLowerCase().startsWith('::ffff:');

/** Whether messages from this GID can reach the group: both are addresses of the same IP version. */
export const reaches = (gid: string, group: string) => isIpv4(gid) === isIpv4(group);

/**
 * The group in which an end receives: the one that --MGID names, or the default one. In latency tests, both ends receive,
 * so the client has the group after it.
 * @throws ConfigError for a group that cannot be reached from this GID
 */
export function groupOf(given: string | undefined, gid: string, role: 'server' | 'client'): string {
  const group = given ?? (isIpv4(gid) ? GROUP_OF_IPV4 : GROUP);
  if (!reaches(gid, group)) {
    const other = isIpv4(group) ? 'an IPv4 address' : 'an IPv6 address';
    throw new ConfigError(
      `--MGID ${group}: this group cannot be reached from the GID ${gid}; select the GID of ${other} with --gid-index`,
    );
  }
  const bytes = gidToBytes(group);
  if (role === 'client') bytes[15]++;
  return gidToString(bytes);
}

/**
 * Makes the IP stack of this host a member of a group, because it drops packets to other groups before a RoCE device gets
 * them. Simulated devices have no IP stack.
 * @returns a function that leaves the group
 * @throws Error of the kernel
 */
export async function joinOnHost(context: Context, local: GidEntry, group: string): Promise<() => void> {
  if (context.provider.name !== 'rdma-core') return () => {};
  const socket = createSocket({ type: isIpv4(group) ? 'udp4' : 'udp6', reuseAddr: true });
  socket.bind(0);
  await once(socket, 'listening');
  socket.unref();
  try {
    join(socket, local, group);
  } catch (error) {
    socket.close();
    throw error;
  }
  return () => socket.close();
}

function join(socket: Socket, { gid, ndevIfindex }: GidEntry, group: string): void {
  const ipv4 = (text: string) => text.replace(/^::ffff:/i, '');
  if (isIpv4(group)) socket.addMembership(ipv4(group), ipv4(gid));
  else socket.addMembership(group, `::%${interfaceName(ndevIfindex)}`);
}

const NET = '/sys/class/net';

function interfaceName(index: number): string {
  const read = (name: string) => {
    try {
      return Number(readFileSync(`${NET}/${name}/ifindex`, 'utf8'));
    } catch {
      return 0;
    }
  };
  const name = readdirSync(NET).find((name) => read(name) === index);
  if (name === undefined)
    throw new ConfigError(`--mcg: cannot find the network interface ${index} of the GID`);
  return name;
}
