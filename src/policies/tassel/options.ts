import { z } from 'zod';
import { fairOptions } from '../fair/options.ts';
import { gbpsByGroup, tenantRates } from '../token-bucket/options.ts';

const { pieceBytes, windowBytes, passBytes } = fairOptions.shape;

/** The options of tassel. None is required. */
export const tasselOptions = z.strictObject({
  ratesGbps: tenantRates.ratesGbps.describe(
    'rates of tenants in Gbit/s on the wire, as a:10/b:2.5; all processes of a tenant share its rate',
  ),
  groupRatesGbps: gbpsByGroup.describe(
    'rates of groups of queue pairs (ISO_QP_GROUP) in Gbit/s on the wire, as kv:3/backup:1; each tenant has them',
  ),
  applicationGbps: z.coerce
    .number()
    .positive()
    .max(1e6)
    .optional()
    .describe('rate of each application (each context) in Gbit/s on the wire'),
  qpGbps: z.coerce
    .number()
    .positive()
    .max(1e6)
    .optional()
    .describe(
      'rate of each queue pair in Gbit/s on the wire, until its program sets another one (ibv_modify_qp_rate_limit)',
    ),
  enforce: z
    .enum(['software', 'device'])
    .default('software')
    .describe(
      'what holds queue pairs to rates of their own: the policy, or the limiters of the device; the policy enforces all other rates in any case',
    ),
  pieceBytes: pieceBytes.describe(
    'messages are sent in pieces of at most this size; default: 3,000 bytes in whole packets, at least one; more where a request occupies the device for long',
  ),
  windowBytes,
  passBytes: passBytes.describe(
    'bytes on the wire of short messages that a tenant without a rate may send without waiting, after a time in which it sent less than its share',
  ),
});

/** The options of tassel after parsing, with defaults filled in. */
export type TasselOptions = z.infer<typeof tasselOptions>;

/** Options that cannot change while the policy runs. */
export const FIXED = ['enforce'] as const;
