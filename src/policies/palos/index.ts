import type { Interceptor } from '../../shim/compose.ts';
import { createCoordinatedShim } from '../coordinated.ts';
import type { PalosOptions } from './options.ts';
import { Palos } from './palos.ts';

/** Chunks by the weights of queue pairs and of their groups. */
export function palos(options: PalosOptions): Interceptor {
  return createCoordinatedShim('palos', (coordinators) => new Palos(options, coordinators));
}
