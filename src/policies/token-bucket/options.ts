import { z } from 'zod';

const above0 = z.coerce.number().positive().max(1e6);

/** `a:3/b:1` as an object; what is not of that form stays as it is. */
function fromText(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  const pairs = value.split('/').map((pair) => /^(.+):([^:]+)$/.exec(pair));
  if (pairs.includes(null)) return value;
  return Object.fromEntries(pairs.map((pair) => [pair?.[1], pair?.[2]]));
}

/** Numbers by tenant. */
const byTenant = z.preprocess(
  fromText,
  z.record(z.string(), above0, { error: 'should be TENANT:NUMBER/TENANT:NUMBER, or an object' }).default({}),
);

/** Who gets what. */
export const tenantRates = {
  weights: byTenant.describe('shares of the link, as a:3/b:1; a tenant that is not named has 1'),
  ratesGbps: byTenant.describe('rates of tenants, as a:10/b:2.5, instead of a share of the link'),
};

/** What limits tenants. */
export const tokenBucketOptions = z.strictObject({
  ...tenantRates,
  linkGbps: above0.optional().describe('what is shared; default: what the device says of its link'),
  pieceBytes: z.coerce
    .number()
    .int()
    .min(256)
    .max(2 ** 30)
    .default(16384)
    .describe('longer messages are cut into pieces of this size'),
  burstBytes: z.coerce
    .number()
    .int()
    .min(1)
    .max(2 ** 40)
    .default(65536)
    .describe('what a tenant that was idle may send at once'),
});

/** The options of token-bucket after parsing, with defaults filled in. */
export type TokenBucketOptions = z.infer<typeof tokenBucketOptions>;
