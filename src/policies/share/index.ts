import type { Interceptor } from '../../shim/compose.ts';
import { createShim } from '../../shim/shim.ts';
import type { ShareOptions } from './options.ts';
import { Share } from './share.ts';

/** Lets connections to one peer share queue pairs, and does nothing else. */
export function share(options: ShareOptions): Interceptor {
  return createShim(() => new Share(options));
}
