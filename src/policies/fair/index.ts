import type { Interceptor } from '../../shim/compose.ts';
import { gateOfAll } from '../../shim/gate.ts';
import { withWait } from '../../shim/wait/wait-support.ts';
import { createCoordinatedShim } from '../coordinated.ts';
import { tokenBucket } from '../token-bucket/index.ts';
import { tokenBucketOptions } from '../token-bucket/options.ts';
import { Fair } from './fair.ts';
import type { FairOptions } from './options.ts';

/** Length of the pieces that buckets release. The scheduler cuts them again, so longer ones leave it fewer short rests. */
const LIMITED_BYTES = 262_144;

/** Shares the link and the processing units of a device among tenants, by what each needs most. */
export function fair(options: FairOptions): Interceptor {
  const scheduler = createCoordinatedShim('fair', (coordinators) => new Fair(options, coordinators));
  const { ratesGbps, ratesRequestsPerS } = options;
  if (Object.keys({ ...ratesGbps, ...ratesRequestsPerS }).length === 0) return scheduler;
  const limits = tokenBucket(
    tokenBucketOptions.parse({
      ratesGbps,
      ratesRequestsPerS,
      others: 'unlimited',
      pieceBytes: LIMITED_BYTES,
      burstBytes: LIMITED_BYTES,
    }),
  );
  return {
    ...withWait(scheduler, 'none', {}, [limits]),
    gate: (wait) => gateOfAll([limits, scheduler].map((one) => one.gate!(wait))),
  };
}
