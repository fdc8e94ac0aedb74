/** Policies by name or by module: closures do not cross threads. */
import { createRequire } from 'node:module';
import { createPolicy } from '../../policies/index.ts';
import type { Interceptor } from '../../shim/compose.ts';
import type { Policy } from '../../shim/policy.ts';
import { createShim } from '../../shim/shim.ts';
import { ConfigError } from '../../verbs/errors.ts';
import type { PolicySpec } from './protocol.ts';

type PolicyModule = (options: Record<string, unknown>) => Partial<Interceptor & Policy> | undefined;

/** What the module says of its options is a matter of configuration. */
function madeBy(make: PolicyModule, name: string, options: Record<string, unknown>) {
  try {
    return make(options);
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    throw new ConfigError(`policy '${name}': ${(cause as Error).message}`, { cause });
  }
}

/**
 * Makes the interceptor of a policy, in whichever thread.
 * @throws ConfigError for an unknown name or option, or a module that makes no policy
 */
export function loadPolicy({ name, options, module }: PolicySpec): Interceptor {
  if (module === undefined) return createPolicy(name, options);
  let make: unknown;
  try {
    const exports = createRequire(import.meta.url)(module);
    make = exports?.default ?? exports;
  } catch (cause) {
    const [why] = (cause as Error).message.split('\n', 1);
    throw new ConfigError(`policy '${name}': ${module} cannot be loaded: ${why}`, { cause });
  }
  if (typeof make !== 'function') {
    throw new ConfigError(
      `policy '${name}': ${module} must export a function (options) => policy as default`,
    );
  }
  const made = madeBy(make as PolicyModule, name, options);
  if (typeof made?.wrap === 'function') return made as Interceptor;
  if (typeof made?.onload !== 'function' || typeof made?.feed !== 'function') {
    throw new ConfigError(`policy '${name}': what ${module} makes is no policy: it has no onload and feed`);
  }
  return createShim(() => make(options) as Policy);
}
