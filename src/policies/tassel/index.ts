import type { Interceptor } from '../../shim/compose.ts';
import { createCoordinatedShim } from '../coordinated.ts';
import type { TasselOptions } from './options.ts';
import { Tassel } from './tassel.ts';

/** Holds queue pairs, groups, applications and tenants to rates. */
export function tassel(options: TasselOptions): Interceptor {
  return createCoordinatedShim('tassel', (coordinators) => new Tassel(options, coordinators));
}
