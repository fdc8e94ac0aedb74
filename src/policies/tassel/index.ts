import type { AgentKind } from '../../coordinator/agent.ts';
import type { Interceptor } from '../../shim/compose.ts';
import { createCoordinatedShim } from '../coordinated.ts';
import { convertQuantities, parseOptions } from '../parse-options.ts';
import { type TasselOptions, tasselOptions } from './options.ts';
import { Tassel } from './tassel.ts';

/** Holds queue pairs, groups, applications and tenants to rates. */
export function tassel(options: TasselOptions): Interceptor {
  return createCoordinatedShim('tassel', (coordinators) => new Tassel(options, coordinators));
}

/**
 * tassel whose queue pairs also have rates that an agent of a module sets (docs/policies/tassel.md).
 * @throws ConfigError for a wrong option
 */
export function tasselWithAgent(
  agent: AgentKind,
  options: Readonly<Record<string, unknown>> = {},
): Interceptor {
  const given = parseOptions('tassel', tasselOptions, convertQuantities('tassel', options));
  return createCoordinatedShim('tassel', (coordinators) => new Tassel(given, coordinators, agent));
}
