import type { Interceptor } from '../../shim/compose.ts';
import { createCoordinatedShim } from '../coordinated.ts';
import { Fair } from './fair.ts';
import type { FairOptions } from './options.ts';

/** Shares the link and the processing units of a device among tenants, by what each needs most. */
export function fair(options: FairOptions): Interceptor {
  return createCoordinatedShim('fair', (coordinators) => new Fair(options, coordinators));
}
