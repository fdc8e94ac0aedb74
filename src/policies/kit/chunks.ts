/** How fast a device sends a message that is cut into chunks, by the size of the chunk. */

/** A size of chunks, and the rate that a queue pair reaches with it. */
export interface PacedChunk {
  readonly chunkBytes: number;
  readonly gbps: number;
}

/** The smallest chunk that reaches a rate; `fallbackBytes` if none does. @param chunks ascending by size */
export function chunkFor(chunks: readonly PacedChunk[], gbps: number, fallbackBytes: number): number {
  for (const chunk of chunks) if (chunk.gbps >= gbps) return chunk.chunkBytes;
  return fallbackBytes;
}
