/** Drivers: where policies run, either in the application's own calls or in a worker thread. */
import { resolve } from 'node:path';
import { policyText } from '../policies/policy-text.ts';
import { requireCpuPresent } from '../providers/rdma-core/addon.ts';
import type { Interceptor } from '../shim/compose.ts';
import { ConfigError, shown } from '../verbs/errors.ts';
import { didYouMean } from '../verbs/suggestions.ts';
import { NANOSECONDS, parseQuantity } from '../verbs/units.ts';
import { requireCpu, requireSpin, type WorkerDriverOptions, workerDriver } from './worker/front.ts';
import { loadParts, loadPolicy, type PolicyParts, underCurrentNames } from './worker/policies.ts';
import type { PolicySpec } from './worker/protocol.ts';

export { type WorkerDriverOptions, workerDriver } from './worker/front.ts';
export { preloadWorkers } from './worker/link.ts';
export type { PolicySpec } from './worker/protocol.ts';

/** Where a policy runs: in the application's own calls, or in a worker thread. */
export type DriverName = 'inline' | 'worker';

export const DRIVERS: readonly DriverName[] = ['inline', 'worker'];

/** A driver as a string: its name, and options of the worker thread (`worker:cpu=3,spin=1ms`). */
export type Driver = DriverName | `worker:${string}`;

/** A driver as that string, or as an object. */
export type DriverChoice = Driver | ({ name: DriverName } & WorkerDriverOptions);

const FORMS = `${DRIVERS.join(', ')} or worker:cpu=NUMBER,spin=TIME`;

/** @throws ConfigError for an unknown driver, an impossible CPU number or an impossible time */
export function driverOf(choice: unknown, source: string): Driver {
  if (typeof choice === 'object' && choice !== null) return driverOfObject(choice, source);
  const known = DRIVERS.find((name) => name === choice);
  if (known !== undefined) return known;
  const options = typeof choice === 'string' && choice.startsWith('worker:') ? choice.slice(7) : '';
  const found: WorkerDriverOptions = {};
  for (const option of options.split(',')) {
    const [, name, value] = /^(cpu|spin)=([^=]+)$/.exec(option) ?? [];
    if (name === 'cpu' && /^\d+$/.test(value)) found.cpu = requireCpu(Number(value), source);
    else if (name === 'spin') found.spinNs = spinOf(value, source);
    else
      throw new ConfigError(
        `${source}: unknown driver ${shown(choice)}; ${didYouMean(String(choice), DRIVERS)}use ${FORMS}`,
      );
  }
  return workerDriverOf(found);
}

function spinOf(text: string, source: string): number {
  return requireSpin(parseQuantity(`${source}: spin`, text, NANOSECONDS), source);
}

function driverOfObject(choice: object, source: string): Driver {
  const { name, cpu, spinNs, ...rest } = choice as Record<string, unknown>;
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined)
    throw new ConfigError(`${source}: unknown key '${unknown}'; the keys are name, cpu and spinNs`);
  const known = driverName(name, `${source}: name`);
  if (known === 'worker') {
    return workerDriverOf({
      ...(cpu !== undefined && { cpu: requireCpu(cpu, source) }),
      ...(spinNs !== undefined && { spinNs: requireSpin(spinNs, source) }),
    });
  }
  if (cpu !== undefined)
    throw new ConfigError(`${source}: cpu: only the driver 'worker' has a thread to pin`);
  if (spinNs !== undefined)
    throw new ConfigError(`${source}: spinNs: only the driver 'worker' has a thread that spins`);
  return known;
}

function workerDriverOf({ cpu, spinNs }: WorkerDriverOptions): Driver {
  const options = [
    ...(cpu === undefined ? [] : [`cpu=${cpu}`]),
    ...(spinNs === undefined ? [] : [`spin=${spinNs}ns`]),
  ];
  return options.length === 0 ? 'worker' : `worker:${options.join(',')}`;
}

/** The options of a driver's thread, from a string that `driverOf` returned. */
export function workerOptionsOf(driver: Driver): WorkerDriverOptions {
  const [, cpu] = /cpu=(\d+)/.exec(driver) ?? [];
  const [, spin] = /spin=([\d.]+)ns/.exec(driver) ?? [];
  return {
    ...(cpu !== undefined && { cpu: Number(cpu) }),
    ...(spin !== undefined && { spinNs: Number(spin) }),
  };
}

/**
 * Requires that the CPU that a driver names exists on this host. Whether the process may use it, only the worker can tell.
 * @throws ConfigError
 */
export function requireCpuOf(driver: Driver, source: string): void {
  const { cpu } = workerOptionsOf(driver);
  if (cpu !== undefined) requireCpuPresent(cpu, `${source}: cpu`);
}

/** @throws ConfigError for an unknown driver */
export function driverName(text: unknown, source: string): DriverName {
  const name = DRIVERS.find((known) => known === text);
  if (name === undefined)
    throw new ConfigError(
      `${source}: unknown driver '${text}'; ${didYouMean(String(text), DRIVERS)}use ${DRIVERS.join(' or ')}`,
    );
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
  if (driver === 'inline' || specs.length === 0) {
    return specs.map((one) => withSpec(loadPolicy(one), policyText(one.name, one.options)));
  }
  return [workerDriver(specs, workerOptionsOf(driver))];
}

/** The interceptor, which a module may have made of a class, with its spec. */
function withSpec(interceptor: Interceptor, spec: string): Interceptor {
  return {
    name: interceptor.name,
    spec,
    wrap: (next) => interceptor.wrap(next),
    ...(interceptor.gate !== undefined && { gate: (wait) => interceptor.gate!(wait) }),
  };
}

/**
 * The rulers and agents of a policy's module.
 * @throws ConfigError
 */
export function partsOfModule(name: string): PolicyParts {
  return loadParts(name, resolve(name));
}

/** Whether a policy name is a file path: it contains a slash or ends like a module. */
export function isModuleName(name: string): boolean {
  return name.includes('/') || /\.[cm]?js$/.test(name);
}

function specOf({ name, options }: { name: string; options: Record<string, unknown> }): PolicySpec {
  if (!isModuleName(name)) return { name, options: underCurrentNames(name, options) };
  return { name, options, module: resolve(name) };
}
