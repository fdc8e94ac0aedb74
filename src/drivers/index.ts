/** Where policies run: in the application's own calls, or in a worker thread. */
import { isAbsolute, resolve } from 'node:path';
import type { Interceptor } from '../shim/compose.ts';
import { ConfigError } from '../verbs/errors.ts';
import { workerDriver } from './worker/front.ts';
import { loadPolicy } from './worker/policies.ts';
import type { PolicySpec } from './worker/protocol.ts';

export { type WorkerDriverOptions, workerDriver } from './worker/front.ts';
export type { PolicySpec } from './worker/protocol.ts';

/** What runs the policies: the application's own calls, or a worker thread. */
export type DriverName = 'inline' | 'worker';

export const DRIVERS: readonly DriverName[] = ['inline', 'worker'];

/** @throws ConfigError for what is no driver */
export function driverName(text: unknown, source: string): DriverName {
  const name = DRIVERS.find((known) => known === text);
  if (name === undefined) throw new ConfigError(`${source}: '${text}' is none of ${DRIVERS.join(', ')}`);
  return name;
}

/**
 * The interceptors of policies under a driver, outermost first. The name of a module (`isModuleName`) is that of a
 * file, seen from the working directory, whose default export makes a policy of its options.
 * @throws ConfigError for an unknown policy or option
 */
export function drivenBy(
  driver: DriverName,
  policies: readonly { name: string; options: Record<string, unknown> }[],
): Interceptor[] {
  const specs = policies.map(specOf);
  if (driver === 'inline' || specs.length === 0) return specs.map(loadPolicy);
  return [workerDriver(specs)];
}

/** Whether a policy's name is that of a file: it has a slash in it, or the ending of a module. */
export function isModuleName(name: string): boolean {
  return name.includes('/') || /\.[cm]?js$/.test(name);
}

function specOf({ name, options }: { name: string; options: Record<string, unknown> }): PolicySpec {
  if (!isModuleName(name)) return { name, options };
  return { name, options, module: isAbsolute(name) ? name : resolve(name) };
}
