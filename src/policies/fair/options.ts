import { z } from 'zod';
import { type WindowRules, windowsRuler } from '../link/windows.ts';
import { requestRates, tenantRates } from '../token-bucket/options.ts';
import { stancesAndRates } from './stance.ts';

/** The options of fair. None is required. */
export const fairOptions = z.strictObject({
  pieceBytes: z.coerce
    .number()
    .int()
    .min(256)
    .max(2 ** 30)
    .optional()
    .describe(
      'messages are sent in pieces of at most this size; default: 3,000 bytes in whole packets, at least one; more where a request occupies the device for long',
    ),
  windowBytes: z.coerce
    .number()
    .int()
    .min(1)
    .max(2 ** 40)
    .optional()
    .describe(
      'the most bytes on the wire in flight in each direction, of all queue pairs; default: what the link carries in a round trip, plus 1.06 pieces',
    ),
  passBytes: z.coerce
    .number()
    .int()
    .min(0)
    .max(2 ** 30)
    .default(6144)
    .describe(
      'bytes on the wire of short messages that a tenant may send without waiting, after a time in which it sent less than its share',
    ),
  targetUs: z.coerce
    .number()
    .positive()
    .max(1e6)
    .optional()
    .describe(
      'the most time in us that 99 % of short messages should take; the policy shortens pieces, then reduces the window and, last, the rate of everything that waits, until they do; default: no target',
    ),
  ratesGbps: tenantRates.ratesGbps.describe(
    'the most that tenants may send, in Gbit/s on the wire, as a:10/b:2.5',
  ),
  ratesRequestsPerS: requestRates,
});

/** Options that cannot change while the policy runs: they concern other layers. */
export const FIXED = ['ratesGbps', 'ratesRequestsPerS'] as const;

/** The options of fair after parsing, with defaults filled in. */
export type FairOptions = z.infer<typeof fairOptions>;

/** The rules of the ruler: tenants share by what they send now. */
export const RULES: WindowRules = { sums: 'active' };

/**
 * The ruler of fair: the parts of the window and of its tenant's rate that each member has, and how it describes the device.
 * Its rules depend on no options, because policies with other options share it.
 */
export const fairWindows = windowsRuler(
  'fairWindows',
  z.unknown().transform(() => RULES),
  stancesAndRates,
);
