import { z } from 'zod';

/** The options of share. */
export const shareOptions = z.strictObject({
  connectionsPerQp: z.coerce
    .number()
    .int()
    .min(2)
    .max(64)
    .default(5)
    .describe(
      'connections of one protection domain to one peer that share a queue pair; the default is that of DRUM',
    ),
  lockNs: z.coerce
    .number()
    .min(0)
    .max(1e6)
    .default(100)
    .describe(
      'time in ns that a simulated thread takes to acquire the lock of a shared queue pair once it is free',
    ),
});

/** The options of share after parsing, with defaults filled in. */
export type ShareOptions = z.infer<typeof shareOptions>;
