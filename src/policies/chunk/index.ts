import type { Interceptor } from '../../shim/compose.ts';
import { createShim } from '../../shim/shim.ts';
import { Chunk } from './chunk.ts';
import type { ChunkOptions } from './options.ts';

/** Cuts large messages into chunks, of which each queue pair has few in flight. */
export function chunk(options: ChunkOptions): Interceptor {
  return createShim(() => new Chunk(options));
}
