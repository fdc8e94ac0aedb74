import type { Interceptor } from '../../shim/compose.ts';
import { createShim } from '../../shim/shim.ts';
import type { TokenBucketOptions } from './options.ts';
import { TokenBucket } from './token-bucket.ts';

/** A static rate for each tenant. */
export function tokenBucket(options: TokenBucketOptions): Interceptor {
  return createShim(() => new TokenBucket(options));
}
