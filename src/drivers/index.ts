/** Drivers: where policies run, either in the application's own calls or in a worker thread. */
import { isAbsolute, resolve } from 'node:path';
import type { Interceptor } from '../shim/compose.ts';
import { ConfigError, shown } from '../verbs/errors.ts';
import { requireCpu, workerDriver } from './worker/front.ts';
import { loadPolicy, underCurrentNames } from './worker/policies.ts';
import type { PolicySpec } from './worker/protocol.ts';

export { type WorkerDriverOptions, workerDriver } from './worker/front.ts';
export { preloadWorkers } from './worker/link.ts';
export type { PolicySpec } from './worker/protocol.ts';

/** Where a policy runs: in the application's own calls, or in a worker thread. */
export type DriverName = 'inline' | 'worker';

export const DRIVERS: readonly DriverName[] = ['inline', 'worker'];

/** A driver as a string: its name, and optionally the CPU for its thread. */
export type Driver = DriverName | `worker:cpu=${number}`;

/** A driver as that string, or as an object. */
export type DriverChoice = Driver | { name: DriverName; cpu?: number };

/** @throws ConfigError for an unknown driver or an impossible CPU number */
export function driverOf(choice: unknown, source: string): Driver {
  if (typeof choice === 'object' && choice !== null) {
    const { name, cpu, ...rest } = choice as { name?: unknown; cpu?: unknown };
    const [unknown] = Object.keys(rest);
    if (unknown !== undefined)
      throw new ConfigError(`${source}: unknown key '${unknown}'; the keys are name and cpu`);
    const known = driverName(name, `${source}: name`);
    if (cpu === undefined) return known;
    if (known !== 'worker')
      throw new ConfigError(`${source}: cpu: only the driver 'worker' has a thread to pin`);
    return `worker:cpu=${requireCpu(cpu, source)}`;
  }
  const [, digits] = /^worker:cpu=(\d+)$/.exec(String(choice)) ?? [];
  if (digits !== undefined) return `worker:cpu=${requireCpu(Number(digits), source)}`;
  const name = DRIVERS.find((known) => known === choice);
  if (name !== undefined) return name;
  throw new ConfigError(
    `${source}: unknown driver ${shown(choice)}; use ${DRIVERS.join(', ')} or worker:cpu=NUMBER`,
  );
}

/** The CPU for a driver's thread, if it names one. */
export function cpuOf(driver: Driver): number | undefined {
  return driver.includes('=') ? Number(driver.slice(driver.indexOf('=') + 1)) : undefined;
}

/** @throws ConfigError for an unknown driver */
export function driverName(text: unknown, source: string): DriverName {
  const name = DRIVERS.find((known) => known === text);
  if (name === undefined)
    throw new ConfigError(`${source}: unknown driver '${text}'; use ${DRIVERS.join(' or ')}`);
  return name;
}

/**
 * The interceptors that run policies under a driver, outermost first. A module name (`isModuleName`) is a
 * file path, relative to the working directory, whose default export creates a policy from its options.
 * @throws ConfigError for an unknown policy or option
 */
export function policyInterceptors(
  driver: Driver,
  policies: readonly { name: string; options: Record<string, unknown> }[],
): Interceptor[] {
  const specs = policies.map(specOf);
  if (driver === 'inline' || specs.length === 0) return specs.map(loadPolicy);
  const cpu = cpuOf(driver);
  return [workerDriver(specs, cpu === undefined ? {} : { cpu })];
}

/** Whether a policy name is a file path: it contains a slash or ends like a module. */
export function isModuleName(name: string): boolean {
  return name.includes('/') || /\.[cm]?js$/.test(name);
}

function specOf({ name, options }: { name: string; options: Record<string, unknown> }): PolicySpec {
  if (!isModuleName(name)) return { name, options: underCurrentNames(name, options) };
  return { name, options, module: isAbsolute(name) ? name : resolve(name) };
}
