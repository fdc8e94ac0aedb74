/** Selection of a port's GID. */
import { type GidEntry, InvalidArgumentError, NoDeviceError } from '../verbs/index.ts';

/** GID tables have up to 1024 entries, nearly all unused: the search stops after this many unused ones in a row. */
const UNUSED_IN_A_ROW = 16;

/** The used entries of a GID table, in order. `query` is provider.queryGid of a port. */
export function usedGids(length: number, query: (index: number) => GidEntry): GidEntry[] {
  const used: GidEntry[] = [];
  let unused = 0;
  for (let index = 0; index < length && unused < UNUSED_IN_A_ROW; index++) {
    const entry = query(index);
    if (entry.gid === '::') unused++;
    else {
      unused = 0;
      used.push(entry);
    }
  }
  return used;
}

/** Higher is better: RoCE v2 over IPv4, RoCE v2, then anything. */
function preference(entry: GidEntry): number {
  const v2 = entry.type === 'RoCE v2';
  if (v2 && entry.gid.startsWith('::ffff:')) return 3;
  if (v2) return entry.gid.startsWith('fe80:') ? 1 : 2;
  return 0;
}

/**
 * The default entry: on RoCE the first RoCE v2 GID of an IPv4 address.
 * @throws NoDeviceError when the port has no GID
 */
export function preferredGid(entries: readonly GidEntry[], where: string): GidEntry {
  if (entries.length === 0)
    throw new NoDeviceError(`${where} has no GID; give its network interface an address`);
  return entries.reduce((best, entry) => (preference(entry) > preference(best) ? entry : best));
}

/** The entry at this index. @throws InvalidArgumentError naming the indexes in use */
export function gidAt(entries: readonly GidEntry[], index: number, where: string): GidEntry {
  const entry = entries.find((candidate) => candidate.index === index);
  if (entry !== undefined) return entry;
  const known = entries.map((candidate) => candidate.index).join(', ') || 'none';
  throw new InvalidArgumentError(`${where} has no GID at index ${index}; indexes in use: ${known}`);
}
