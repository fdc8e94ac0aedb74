import type { Interceptor } from '../../shim/compose.ts';
import { createShim } from '../../shim/shim.ts';
import type { PalosOptions } from './options.ts';
import { Palos } from './palos.ts';

/** Chunks by the weights of queue pairs and of their groups. */
export function palos(options: PalosOptions): Interceptor {
  return createShim(() => new Palos(options));
}
