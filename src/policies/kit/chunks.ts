/** Picks chunk sizes from a NIC's dictionary, as Justitia does (section 5.2 of its paper). */
import type { NicFacts } from '../../verbs/nic.ts';

/**
 * The size of the smallest chunk whose measured rate reaches `gbps`, or of the fastest chunk if none does.
 * @param chunks the dictionary of a NIC, in ascending order of size; null: unknown
 * @param gbps the rate to reach, in Gbit/s on the wire
 * @param fallbackBytes returned if there is no dictionary
 */
export function chunkFor(chunks: NicFacts['chunks'], gbps: number, fallbackBytes: number): number {
  if (chunks === null || chunks.length === 0) return fallbackBytes;
  let fastest = chunks[0];
  for (const chunk of chunks) {
    if (chunk.gbps >= gbps) return chunk.chunkBytes;
    if (chunk.gbps > fastest.gbps) fastest = chunk;
  }
  return fastest.chunkBytes;
}
