import { Coordinators, coordinatorsOf } from '../../coordinator/registry.ts';
import type { Interceptor } from '../../shim/compose.ts';
import { createShim } from '../../shim/shim.ts';
import type { TokenBucketOptions } from './options.ts';
import { TokenBucket } from './token-bucket.ts';

/** A static rate for each tenant. */
export function tokenBucket(options: TokenBucketOptions): Interceptor {
  const around = (coordinator: Coordinators) =>
    createShim(() => new TokenBucket(options, coordinator), { coordinator });
  return {
    name: 'token-bucket',
    wrap: (next) => around(coordinatorsOf(next)).wrap(next),
    gate: (wait) => around(new Coordinators()).gate!(wait),
  };
}
