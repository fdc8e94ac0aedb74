import { z } from 'zod';
import type { ContextView } from '../../shim/policy.ts';
import { ConfigError } from '../../verbs/errors.ts';
import { refuseProto } from '../parse-options.ts';

const above0 = z.coerce.number().positive().max(1e6);
const requestsPerS = z.coerce.number().positive().max(1e12);

/** Parses `a:3/b:1` into an object. Any other value is returned unchanged. @param noun what the names stand for */
function fromText(value: unknown, context: z.RefinementCtx, noun: string): unknown {
  if (typeof value !== 'string') return value;
  const pairs = value.split('/').map((pair) => /^(.+):([^:]+)$/.exec(pair));
  if (pairs.includes(null)) return value;
  const names = pairs.map((pair) => pair?.[1]);
  const twice = names.find((name, k) => names.indexOf(name) < k);
  if (twice !== undefined) context.addIssue(`names ${noun} '${twice}' twice`);
  return Object.fromEntries(pairs.map((pair) => [pair?.[1], pair?.[2]]));
}

/** Numbers by name. */
function byName(noun: string, number: typeof above0) {
  const pair = `${noun.toUpperCase()}:NUMBER`;
  return z.preprocess(
    (value, context) => refuseProto(fromText(value, context, noun), context),
    z.record(z.string(), number, { error: `should be ${pair}/${pair}, or an object` }).default({}),
  );
}

/** Rates of groups in Gbit/s. */
export const gbpsByGroup = byName('group', above0);

/** Options that set the rates of tenants. */
export const tenantRates = {
  weights: byName('tenant', above0).describe(
    'shares of the link, as a:3/b:1; default: the label weight of each tenant',
  ),
  ratesGbps: byName('tenant', above0).describe(
    'fixed rates of tenants in Gbit/s, as a:10/b:2.5, instead of a share of the link',
  ),
};

/** Limits of tenants in requests of the application, in addition to those of the link. */
export const requestRates = byName('tenant', requestsPerS).describe(
  'the most requests per second that tenants may send, as a:1e6/b:5e5',
);

/** The options of token-bucket. */
export const tokenBucketOptions = z.strictObject({
  ...tenantRates,
  ratesRequestsPerS: requestRates,
  others: z
    .enum(['share', 'unlimited'])
    .default('share')
    .describe(
      'what tenants without a fixed rate have: a share of the link (`share`), or no limit (`unlimited`)',
    ),
  linkGbps: above0
    .optional()
    .describe('rate of the link that tenants share; default: the rate that the device reports'),
  pieceBytes: z.coerce
    .number()
    .int()
    .min(256)
    .max(2 ** 30)
    .default(16384)
    .describe('longer messages are split into pieces of this size'),
  burstBytes: z.coerce
    .number()
    .int()
    .min(1)
    .max(2 ** 40)
    .default(65536)
    .describe('bytes that a tenant may send at once after an idle period'),
});

/** The options of token-bucket after parsing, with defaults filled in. */
export type TokenBucketOptions = z.infer<typeof tokenBucketOptions>;

/** @throws ConfigError if neither the rate of the context's link nor a rate of its tenant is known */
export function requireRate(context: ContextView, options: TokenBucketOptions): void {
  if (options.others === 'unlimited') return;
  const linkGbps = options.linkGbps ?? context.nic?.linkGbps ?? 0;
  if (linkGbps > 0 || Object.hasOwn(options.ratesGbps, context.tenant)) return;
  throw new ConfigError(
    `token-bucket: ${context.device} does not report the rate of its link; set linkGbps, or a rate for '${context.tenant}' in ratesGbps`,
  );
}
