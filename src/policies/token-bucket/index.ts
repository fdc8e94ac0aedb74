import { CoordinatorRegistry, registryFor } from '../../coordinator/registry.ts';
import type { Interceptor } from '../../shim/compose.ts';
import { createShim } from '../../shim/shim.ts';
import type { TokenBucketOptions } from './options.ts';
import { TokenBucket } from './token-bucket.ts';

/** A static rate for each tenant. */
export function tokenBucket(options: TokenBucketOptions): Interceptor {
  const around = (coordinator: CoordinatorRegistry) =>
    createShim(() => new TokenBucket(options, coordinator), { coordinator });
  return {
    name: 'token-bucket',
    wrap: (next) => around(registryFor(next)).wrap(next),
    gate: (wait) => around(new CoordinatorRegistry()).gate!(wait),
  };
}
