import type { Interceptor } from '../../shim/compose.ts';
import { createCoordinatedShim } from '../coordinated.ts';
import { Justitia } from './justitia.ts';
import type { JustitiaOptions } from './options.ts';

/** Token pacing with a latency target. */
export function justitia(options: JustitiaOptions): Interceptor {
  return createCoordinatedShim('justitia', (coordinators) => new Justitia(options, coordinators));
}
