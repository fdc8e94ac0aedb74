/** GIDs: 16 bytes on the wire, and IPv6 notation in texts (as printed by ibv_devinfo). */
import { EINVAL } from './constants.ts';
import { InvalidArgumentError, shown } from './errors.ts';

/** Sixteen bytes as IPv6 text: IPv4-mapped addresses with dots, the longest run of zeros as '::'. */
export function gidToString(bytes: Uint8Array): string {
  const words = Array.from({ length: 8 }, (_, i) => (bytes[2 * i] << 8) | bytes[2 * i + 1]);
  if (words.slice(0, 5).every((w) => w === 0) && words[5] === 0xffff) {
    return `::ffff:${bytes.slice(12, 16).join('.')}`;
  }
  const text = words.map((w) => w.toString(16)).join(':');
  const runs = text.match(/\b0(:0)+\b/g) ?? [];
  const longest = runs.reduce((best, run) => (run.length > best.length ? run : best), '');
  // The boundary excludes the last 0 of a word such as fe80 from the run.
  return longest === '' ? text : text.replace(new RegExp(`\\b${longest}\\b`), '::').replace(/:{3,}/, '::');
}

/** The 16 bytes of a GID in IPv6 text. @throws InvalidArgumentError */
export function gidToBytes(gid: string): Uint8Array {
  const bad = () =>
    new InvalidArgumentError(`${shown(gid)} is not a GID; it is written like an IPv6 address`);
  if (typeof gid !== 'string') throw bad();
  const bytes = new Uint8Array(16);
  let text = gid;
  const dotted = /^(.*:)(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(gid);
  if (dotted) {
    const [a, b, c, d] = dotted.slice(2).map(Number);
    if ([a, b, c, d].some((n) => n > 255)) throw bad();
    text = `${dotted[1]}${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
  }
  const halves = text.split('::');
  if (halves.length > 2) throw bad();
  const [head, tail] = halves.map((half) => (half === '' ? [] : half.split(':')));
  const gap = tail === undefined ? 0 : 8 - head.length - tail.length;
  const words = [...head, ...Array(Math.max(gap, 0)).fill('0'), ...(tail ?? [])];
  if (words.length !== 8 || gap < 0 || words.some((w) => !/^[0-9a-f]{1,4}$/i.test(w))) throw bad();
  words.forEach((word, i) => {
    const value = Number.parseInt(word, 16);
    bytes[2 * i] = value >> 8;
    bytes[2 * i + 1] = value & 255;
  });
  return bytes;
}

/** The bytes of a GID that is an argument of a verb. @throws InvalidArgumentError naming verb and argument */
export function requireGid(verb: string, name: string, gid: unknown): Uint8Array {
  const refuse = (why: string) =>
    new InvalidArgumentError(`${verb}: ${name} ${why}`, { verb, errno: EINVAL });
  if (gid === undefined) throw refuse('is missing; RoCE has no LID routing');
  if (typeof gid !== 'string') throw refuse(`must be a GID in IPv6 notation, got ${shown(gid)}`);
  try {
    return gidToBytes(gid);
  } catch (error) {
    throw refuse(`is wrong: ${(error as Error).message}`);
  }
}

/** A GID as four 32-bit numbers, for messages of agents. @throws InvalidArgumentError */
export function gidToWords(gid: string): number[] {
  const bytes = gidToBytes(gid);
  const view = new DataView(bytes.buffer, bytes.byteOffset, 16);
  return [0, 4, 8, 12].map((at) => view.getUint32(at));
}

/** The GID in four words of a message; null unless they are 32-bit integers. */
export function gidFromWords(words: ArrayLike<number>, at: number): string | null {
  const bytes = new Uint8Array(16);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < 4; i++) {
    const word = words[at + i];
    if (!(Number.isInteger(word) && word >= 0 && word < 2 ** 32)) return null;
    view.setUint32(4 * i, word);
  }
  return gidToString(bytes);
}
