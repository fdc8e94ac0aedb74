import { CoordinatorRegistry, registryFor } from '../coordinator/registry.ts';
import type { Interceptor } from '../shim/compose.ts';
import type { Policy } from '../shim/policy.ts';
import { createShim } from '../shim/shim.ts';

/**
 * The key under which such an interceptor has its copy's `registryFor`. Coordinators belong to one copy of this package: a
 * policy of another copy would have coordinators and agents of its own, and would not join a daemon.
 */
export const COORDINATED_BY = Symbol.for('isoverbs.coordinatedBy.1');

/**
 * Creates an interceptor whose policy joins the coordinators of devices, which all policies around a provider share, and
 * those of a daemon share with other processes.
 * @param make creates the policy for a provider; `coordinators` are those of its devices
 */
export function createCoordinatedShim(
  name: string,
  make: (coordinators: CoordinatorRegistry) => Policy,
): Interceptor {
  const around = (coordinator: CoordinatorRegistry) => createShim(() => make(coordinator), { coordinator });
  return {
    name,
    ...{ [COORDINATED_BY]: registryFor },
    wrap: (next) => around(registryFor(next)).wrap(next),
    gate: (wait) => around(new CoordinatorRegistry()).gate!(wait),
  };
}
