/** Addresses in arguments: where a queue pair or an address handle leads. */
import { requireGid } from '../../verbs/gid.ts';
import type { AhAttr } from '../../verbs/types.ts';
import { requireInteger, requireObject } from './arguments.ts';

const RANGES: [field: keyof AhAttr, min: number, max: number][] = [
  ['portNum', 1, 1],
  ['sgidIndex', 0, 1],
  ['hopLimit', 0, 255],
  ['trafficClass', 0, 255],
  ['flowLabel', 0, 0xfffff],
  ['sl', 0, 15],
];

/**
 * The GID that an address leads to, 16 bytes. `name` is how the argument is called.
 * @throws InvalidArgumentError
 */
export function requireAddress(verb: string, name: string, ah: AhAttr | undefined): Uint8Array {
  requireObject(verb, name, ah);
  const attr = ah as AhAttr;
  for (const [field, min, max] of RANGES) {
    if (attr[field] !== undefined) requireInteger(verb, `${name}.${field}`, attr[field], min, max);
  }
  return requireGid(verb, `${name}.dgid`, attr.dgid);
}

/** Whether a GID names a group: ff00::/8, or an IPv4 address of 224.0.0.0/4 mapped into IPv6. */
export function isGroup(gid: Uint8Array): boolean {
  if (gid[0] === 0xff) return true;
  const mapped = gid.subarray(0, 10).every((byte) => byte === 0) && gid[10] === 0xff && gid[11] === 0xff;
  return mapped && gid[12] >> 4 === 14;
}
