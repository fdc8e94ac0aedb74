import { z } from 'zod';

const whole = (least: number, most: number) => z.coerce.number().int().min(least).max(most);

/** The options of palos (sections IV and V of the paper). */
export const palosOptions = z.strictObject({
  sums: z
    .enum(['configured', 'active'])
    .default('configured')
    .describe(
      'the queue pairs whose weights divide the link: all that exist, as in the paper, or those that have something to send',
    ),
  chunkMtus: z.coerce
    .number()
    .min(0.25)
    .max(1024)
    .default(4)
    .describe(
      'mean length of a chunk, in packets of the path MTU (N of equation 2, divided by the number of queue pairs)',
    ),
  pieceBytes: whole(256, 2 ** 30)
    .optional()
    .describe(
      'a chunk is sent in pieces of at most this size; default: 3,000 bytes in whole packets, at least one',
    ),
  windowBytes: whole(1, 2 ** 40)
    .optional()
    .describe(
      'the most bytes on the wire in flight in each direction, of all queue pairs; default: what the link carries in a round trip, plus two pieces',
    ),
  urgentBytes: whole(0, 2 ** 30)
    .optional()
    .describe(
      'the longest message of a queue pair with the label latency that goes before all others; default: one packet',
    ),
  urgentShare: z.coerce
    .number()
    .min(0)
    .max(1)
    .default(0.05)
    .describe(
      'part of the link that messages which go before all others may take while others wait; 0: no message goes before others; 1: no limit, as in the paper',
    ),
  minChargeBytes: whole(1, 2 ** 20)
    .optional()
    .describe(
      'the least that a message counts against its chunk, in bytes; default: what an empty WRITE takes on the wire',
    ),
});

/** The options of palos after parsing, with defaults filled in. */
export type PalosOptions = z.infer<typeof palosOptions>;

/** Options that cannot change while the policy runs. */
export const FIXED = ['sums', 'chunkMtus'] as const;
