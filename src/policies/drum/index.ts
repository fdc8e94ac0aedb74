import type { Interceptor } from '../../shim/compose.ts';
import { createCoordinatedShim } from '../coordinated.ts';
import { Drum } from './drum.ts';
import type { DrumOptions } from './options.ts';

/** Serves applications at the request rates that are best for all of them together. */
export function drum(options: DrumOptions): Interceptor {
  return createCoordinatedShim('drum', (coordinators) => new Drum(options, coordinators));
}
