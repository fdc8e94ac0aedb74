/** Hosts of a fabric by what people call them. */
import { ConnectionError, InvalidArgumentError } from '../../verbs/errors.ts';
import { gidToBytes, gidToString } from '../../verbs/gid.ts';
import { addressOf, gidOf } from './limits.ts';

/** All hosts of a fabric are in this process: any of them may be meant. */
export const ANY_HOST = -1;

const ANY_NAMES = new Set(['localhost', '127.0.0.1', '::1', '0.0.0.0', '::']);

/**
 * Index of a host by name ('sim0'), address or GID; ANY_HOST for 'localhost' and kin.
 * @throws ConnectionError naming the hosts there are
 */
export function hostNamed(verb: string, hosts: number, name: string): number {
  if (ANY_NAMES.has(name)) return ANY_HOST;
  for (let i = 0; i < hosts; i++) {
    if (name === `sim${i}` || name === addressOf(i) || sameGid(name, gidOf(i))) return i;
  }
  const known = hosts === 1 ? 'sim0' : `sim0 .. sim${hosts - 1}`;
  throw new ConnectionError(`${verb}: no host '${name}' in this fabric; it has ${known} and localhost`);
}

function sameGid(name: string, gid: string): boolean {
  try {
    return gidToString(gidToBytes(name)) === gid;
  } catch (error) {
    if (error instanceof InvalidArgumentError) return false;
    throw error;
  }
}
