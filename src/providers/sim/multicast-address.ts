/** The GID of a multicast group, as RoCE v2 makes it of an IP address. */

import type { CmAddress } from '../../verbs/connection-manager.ts';
import { InvalidArgumentError, shown } from '../../verbs/errors.ts';
import { gidToBytes, gidToString } from '../../verbs/gid.ts';
import { requireObject } from './arguments.ts';

/** @throws InvalidArgumentError for what is no multicast address */
export function groupGid(verb: string, group: CmAddress): string {
  requireObject(verb, 'group', group);
  const { address } = group;
  const bytes = bytesOf(address);
  const v4 = /^[\d.]+$/.test(String(address));
  if (bytes !== null && (v4 ? bytes[12] >> 4 === 0xe : bytes[0] === 0xff)) return gidToString(bytes);
  throw new InvalidArgumentError(
    `${verb}: group must be a multicast address (224.0.0.0/4 or ff00::/8), got ${shown(address)}`,
    { verb },
  );
}

function bytesOf(address: unknown): Uint8Array | null {
  if (typeof address !== 'string') return null;
  try {
    return gidToBytes(address.includes(':') ? address : `::ffff:${address}`);
  } catch {
    return null;
  }
}
