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

/** The options of justitia (section 4.3 of the paper, with its names and units last). */
export const justitiaOptions = z.strictObject({
  paper: flag(false).describe(
    'follows the paper: halves the rate when the tail is too long, counts idle applications, keeps no window',
  ),
  targetUs: z.coerce
    .number()
    .positive()
    .max(1e6)
    .default(2)
    .describe(
      '99th percentile of the reference flows that the rate is adapted to, in microseconds (Target99)',
    ),
  refPeriodUs: z.coerce
    .number()
    .min(1)
    .max(1e6)
    .default(20)
    .describe('microseconds between two messages of a reference flow (RefPeriod)'),
  refCount: whole(10, 1e6).default(10_000).describe('messages of the sliding window (RefCount)'),
  chunkBytes: whole(256, 2 ** 30)
    .default(5000)
    .describe('bytes of a token, and of a chunk, while there are latency applications'),
  bulkChunkBytes: whole(256, 2 ** 30)
    .default(1_000_000)
    .describe('bytes of a token, and of a chunk, while there are none'),
  chunks: z
    .enum(['fixed', 'dictionary'])
    .default('fixed')
    .describe('with latency applications: chunkBytes, or the smallest measured chunk that reaches the rate'),
  granularity: z
    .enum(['flow', 'application', 'tenant', 'group'])
    .default('application')
    .describe('what gets a share: a queue pair, a context, a tenant, or a group of queue pairs of a context'),
  latencyCounts: z
    .enum(['one', 'weight'])
    .default('one')
    .describe('how latency applications count: together as one, or each by its weight'),
  splitQp: z
    .enum(['auto', 'always', 'never'])
    .default('auto')
    .describe(
      'when the chunks of a message go over a queue pair of the policy: from 1 MB up, always, or never',
    ),
  classify: flag(true).describe(
    'whether applications that declare nothing are classified by what they send; otherwise they count as bandwidth applications',
  ),
  tokenMessages: whole(1, 1e9)
    .optional()
    .describe('messages of a token of bulkChunkBytes; default: from the message rate of one queue pair'),
  maxGbps: rate('the most that the device sends, in Gbit/s on the wire (MaxRate)'),
  maxMmps: rate('the most messages that the device sends, in millions per second'),
  backlogBytes: whole(1, 2 ** 40)
    .default(8192)
    .describe('bytes that may be sent at once after a delay of the policy, if more than a token'),
  seed: z.coerce.number().int().default(1).describe('seed of the jitter of reference flows'),
});

/** The options of justitia after parsing, with defaults filled in. */
export type JustitiaOptions = z.infer<typeof justitiaOptions>;

/** Options that cannot change while the policy runs: they decide what it creates. */
export const FIXED = ['paper', 'splitQp', 'granularity', 'seed', 'refCount'] as const;
