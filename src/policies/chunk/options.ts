import { z } from 'zod';

/** The options of chunk. */
export const chunkOptions = z.strictObject({
  chunkBytes: z.coerce
    .number()
    .int()
    .min(256)
    .max(2 ** 30)
    .default(25_000)
    .describe(
      'longer messages are split into chunks of this size; default: one bandwidth-delay product, as in the Palos paper',
    ),
  chunks: z.coerce
    .number()
    .int()
    .min(1)
    .max(64)
    .default(1)
    .describe('chunks that each queue pair may have in flight'),
});

/** The options of chunk after parsing, with defaults filled in. */
export type ChunkOptions = z.infer<typeof chunkOptions>;
