import type { Interceptor } from '../../shim/compose.ts';
import { createCoordinatedShim } from '../coordinated.ts';
import type { TokenBucketOptions } from './options.ts';
import { TokenBucket } from './token-bucket.ts';

/** A static rate for each tenant. */
export function tokenBucket(options: TokenBucketOptions): Interceptor {
  return createCoordinatedShim('token-bucket', (coordinators) => new TokenBucket(options, coordinators));
}
