import { z } from 'zod';

const flag = (byDefault: boolean) => z.stringbool().or(z.boolean()).default(byDefault);
const whole = (least: number, most: number) => z.coerce.number().int().min(least).max(most);
const rate = (what: string) =>
  z.coerce
    .number()
    .positive()
    .max(1e6)
    .optional()
    .describe(`${what}; default: as measured, or as the device reports`);

/** The options of justitia (section 4.3 of the paper). */
export const justitiaOptions = z.strictObject({
  paper: flag(false).describe(
    'follows the paper: halves the rate when the tail is too long, counts idle applications, limits nothing in flight',
  ),
  targetUs: z.coerce
    .number()
    .positive()
    .max(1e6)
    .default(2)
    .describe(
      'target for the 99th percentile of the latencies of reference flows, in microseconds (Target99)',
    ),
  refPeriodUs: z.coerce
    .number()
    .min(1)
    .max(1e6)
    .default(20)
    .describe('microseconds between two messages of a reference flow (RefPeriod)'),
  refCount: whole(10, 1e6).default(10_000).describe('latencies in the sliding window (RefCount)'),
  chunkBytes: whole(256, 2 ** 30)
    .default(5000)
    .describe('bytes of a token, and of a chunk, while there are latency applications'),
  bulkChunkBytes: whole(256, 2 ** 30)
    .default(1_000_000)
    .describe(
      'bytes of a token while there are no latency applications; chunks then have at most 256 KiB (with paper, the whole token)',
    ),
  chunks: z
    .enum(['fixed', 'dictionary'])
    .default('fixed')
    .describe(
      'chunks next to latency applications: of chunkBytes, or the smallest measured chunk that reaches SafeUtil',
    ),
  granularity: z
    .enum(['flow', 'application', 'tenant', 'group'])
    .default('application')
    .describe('what gets a share: a queue pair, a context, a tenant, or a group of queue pairs of a context'),
  latencyCounts: z
    .enum(['one', 'weight'])
    .default('one')
    .describe('how latency applications count: together as one, or each by its weight'),
  maxPeerWeight: z.coerce
    .number()
    .positive()
    .max(1e9)
    .default(64)
    .describe('the weight with which another host counts at most, if the own applications do not weigh more'),
  splitQp: z
    .enum(['auto', 'always', 'never'])
    .default('auto')
    .describe(
      'when the chunks of a message go over a split queue pair: from 1 MB up next to latency applications, always, or never',
    ),
  classify: flag(true).describe(
    'whether applications that declare nothing are classified by what they send; if false, they count as bandwidth applications',
  ),
  tokenMessages: whole(1, 1e9)
    .optional()
    .describe(
      'messages in a token of bulkChunkBytes; default: by the message rate of one queue pair. If set, message-rate applications are limited even alone',
    ),
  maxGbps: rate('the highest rate of the device, in Gbit/s on the wire (MaxRate)'),
  maxMmps: rate('the highest message rate of the device, in millions per second'),
  backlogBytes: whole(1, 2 ** 40)
    .default(8192)
    .describe('bytes that may be sent at once after a delay of the policy, if that is more than a token'),
  seed: z.coerce.number().int().default(1).describe('seed of the jitter of reference flows'),
});

/** The options of justitia after parsing, with defaults filled in. */
export type JustitiaOptions = z.infer<typeof justitiaOptions>;

/** Options that cannot change while the policy runs, because they determine what it creates. */
export const FIXED = ['paper', 'splitQp', 'granularity', 'seed', 'refCount'] as const;
