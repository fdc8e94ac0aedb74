import type { Interceptor } from '../../shim/compose.ts';
import { createCoordinatedShim } from '../coordinated.ts';
import type { PalosOptions } from './options.ts';
import { Palos } from './palos.ts';

/** Serves queue pairs in chunks, by the weights of tenants, groups and queue pairs. */
export function palos(options: PalosOptions): Interceptor {
  return createCoordinatedShim('palos', (coordinators) => new Palos(options, coordinators));
}
