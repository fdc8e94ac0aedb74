/**
 * What has a rate within a tenant, as a text: a group of its queue pairs (`group=NAME`), or each of its queue pairs whose
 * peer has an address (`qp=ADDRESS`), in which `*` matches any text.
 */
import { isGroupName } from './groups.ts';
import { addressOfGid, fits, plainAddress } from './patterns.ts';

/** The most rates of the groups and queue pairs of one tenant. */
export const MAX_RATES = 128;

const GROUP = 'group=';
const QP = 'qp=';
/** An IP address in any notation, perhaps with `*`, and no longer than the longest one. */
const ADDRESS = /^[0-9a-f:.*]{1,45}$/i;

/** The target that a text names, with its address as `addressOfGid` writes it; null if it names none. */
export function rateTarget(text: string): string | null {
  if (text.startsWith(GROUP)) return isGroupName(text.slice(GROUP.length)) ? text : null;
  const address = text.slice(QP.length);
  if (!text.startsWith(QP) || !ADDRESS.test(address)) return null;
  if (address.includes('*')) return `${QP}${plainAddress(address.toLowerCase())}`;
  try {
    return `${QP}${addressOfGid(address.includes(':') ? address : `::ffff:${address}`)}`;
  } catch {
    return null;
  }
}

/** The group that a target names; null if it names queue pairs. */
export function groupOfTarget(target: string): string | null {
  return target.startsWith(GROUP) ? target.slice(GROUP.length) : null;
}

/** Whether a target names queue pairs whose peers have this address ('': unknown). */
export function hasPeer(target: string, address: string): boolean {
  return target.startsWith(QP) && fits(target.slice(QP.length), address);
}

/** What a target must be, for messages. */
export const RATE_TARGETS =
  "group=NAME, or qp=ADDRESS with the IP address of the peer, in which '*' matches any text";
