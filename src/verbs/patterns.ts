/** Texts in which `*` matches any text, and addresses of ports in them. */
import { gidToBytes, gidToString } from './gid.ts';

/**
 * Whether a text fits a pattern, in which `*` matches any text. Matches in one pass: others may choose the text, and a
 * matcher that backtracks could be kept busy for hours.
 */
export function fits(pattern: string | undefined, text: string): boolean {
  if (pattern === undefined) return true;
  const [first, ...others] = pattern.split('*');
  const last = others.pop();
  if (last === undefined) return text === first;
  if (!text.startsWith(first) || !text.endsWith(last)) return false;
  let at = first.length;
  for (const part of others) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return at <= text.length - last.length;
}

/** An address without the prefix of IPv4 addresses in IPv6 form, as in the GIDs of RoCE. */
export const plainAddress = (address: string): string => address.replace(/^::ffff:(?=\d+\.)/i, '');

/** The address in a GID; '' without a GID. @throws InvalidArgumentError if it is none */
export const addressOfGid = (gid: string): string =>
  gid === '' ? '' : plainAddress(gidToString(gidToBytes(gid)));
