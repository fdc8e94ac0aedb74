/** Creates policies by name or from a module, because closures cannot be passed between threads. */
import { createRequire } from 'node:module';
import { isAbsolute } from 'node:path';
import { registryFor } from '../../coordinator/registry.ts';
import { COORDINATED_BY } from '../../policies/coordinated.ts';
import { type AgentKind, createPolicy, policies, type Ruler } from '../../policies/index.ts';
import { currentOptions } from '../../policies/parse-options.ts';
import type { Interceptor } from '../../shim/compose.ts';
import type { Policy } from '../../shim/policy.ts';
import { createShim } from '../../shim/shim.ts';
import { ConfigError, PolicyError } from '../../verbs/errors.ts';
import type { PolicySpec } from './protocol.ts';

/**
 * Options of a policy under their current names, so that a worker never sees former ones.
 * @throws ConfigError when an option is given under both names
 */
export function underCurrentNames(name: string, options: Record<string, unknown>): Record<string, unknown> {
  return Object.hasOwn(policies, name) ? currentOptions(name, policies[name].options, options) : options;
}

type PolicyModule = (options: Record<string, unknown>) => Partial<Interceptor & Policy> | undefined;

/** An error that the module throws about its options is a configuration error. */
function madeBy(make: PolicyModule, name: string, options: Record<string, unknown>) {
  try {
    return make(options);
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    throw new ConfigError(`policy '${name}': ${(cause as Error).message}`, { cause });
  }
}

/** @throws ConfigError if the module cannot be loaded */
function exportsOf(name: string, module: string) {
  try {
    return createRequire(import.meta.url)(module);
  } catch (cause) {
    const [why] = (cause as Error).message.split('\n', 1);
    throw new ConfigError(
      why === `Cannot find module '${module}'`
        ? `policy '${name}': there is no file ${module}${isAbsolute(name) ? '' : '; a relative path starts at the working directory'}`
        : `policy '${name}': ${module} cannot be loaded: ${why}`,
      { cause },
    );
  }
}

/** The rulers and agents of a policy's module. */
export interface PolicyParts {
  readonly rulers: readonly Ruler[];
  readonly agents: readonly AgentKind[];
}

const isRuler = (one: Partial<Ruler> | null) =>
  typeof one?.name === 'string' &&
  typeof one.begin === 'function' &&
  typeof one.rules?.safeParse === 'function' &&
  [one.reports, one.grants].every(Array.isArray);

const isAgentKind = (one: Partial<AgentKind> | null) =>
  typeof one?.name === 'string' && typeof one.create === 'function';

/**
 * The `rulers` and `agents` that a policy's module exports, if any.
 * @throws ConfigError
 */
export function loadParts(name: string, module: string): PolicyParts {
  const { rulers = [], agents = [] } = exportsOf(name, module) ?? {};
  const must = (what: string) => new ConfigError(`policy '${name}': ${module} must export ${what}`);
  if (!Array.isArray(rulers) || !rulers.every(isRuler)) {
    throw must("an array 'rulers'; a ruler has name, reports, grants, rules and begin");
  }
  if (!Array.isArray(agents) || !agents.every(isAgentKind)) {
    throw must("an array 'agents'; each entry has name and create");
  }
  return { rulers, agents };
}

/** @throws ConfigError for a policy whose coordinators are those of another copy of this package */
function requireOwnCopy(name: string, made: object): void {
  const copy = (made as { [COORDINATED_BY]?: unknown })[COORDINATED_BY];
  if (copy === undefined || copy === registryFor) return;
  throw new ConfigError(
    `policy '${name}': its module imports another copy of isoverbs than the one that is running, so its rulers and agents would be on their own; install the module beside the running copy, or run the isoverbs of the module's folder (npx isoverbs)`,
  );
}

/**
 * Creates the interceptor of a policy, in whichever thread needs it.
 * @throws ConfigError for an unknown name or option, or a module that creates no policy
 */
export function loadPolicy({ name, options, module }: PolicySpec): Interceptor {
  if (module === undefined) return createPolicy(name, options);
  const exports = exportsOf(name, module);
  const make = exports?.default ?? exports;
  if (typeof make !== 'function') {
    throw new ConfigError(
      `policy '${name}': ${module} must export a function (options) => policy as its default`,
    );
  }
  const made = madeBy(make as PolicyModule, name, options);
  if (typeof made?.wrap === 'function') {
    requireOwnCopy(name, made);
    return made as Interceptor;
  }
  if (typeof made?.onload !== 'function' || typeof made?.feed !== 'function') {
    throw new ConfigError(
      `policy '${name}': ${module} does not create a policy; a policy has onload and feed`,
    );
  }
  return createShim(() => explaining(make(options) as Policy, name, module));
}

/** All functions of a policy but `configure`, all of whose errors are about options. */
const FUNCTIONS: readonly (keyof Policy)[] = [
  'setup',
  'admitQp',
  'admit',
  'onload',
  'feed',
  'onCompleted',
  'onHandedOver',
  'onQp',
  'onGroup',
  'onWeight',
  'onTimer',
  'onGrants',
  'onInternal',
  'inspect',
  'gauges',
];

/** Makes each function of a policy throw errors that name the policy, the function and the line. Returns the policy. */
function explaining(policy: Policy, name: string, module: string): Policy {
  const functions = policy as unknown as Record<string, (...args: unknown[]) => unknown>;
  for (const key of Object.isExtensible(policy) ? FUNCTIONS : []) {
    const own = functions[key];
    if (typeof own !== 'function') continue;
    const value = (a: unknown, b: unknown, c: unknown, d: unknown, e: unknown) => {
      try {
        return own.call(policy, a, b, c, d, e);
      } catch (cause) {
        const isExplained = cause instanceof PolicyError && cause.cause !== undefined;
        if (isExplained || (key === 'setup' && isRefusal(cause))) throw cause;
        throw new PolicyError(`policy '${name}': ${key}: ${told(cause, module)}`, { cause });
      }
    };
    Object.defineProperty(policy, key, { value, writable: true, configurable: true });
  }
  return policy;
}

/** Whether a policy refuses its options, or the device, on purpose. The error may come from another copy of this package. */
const isRefusal = (error: unknown) =>
  ['ISO_ERR_CONFIG', 'ISO_ERR_UNSUPPORTED'].includes((error as { code?: string } | null)?.code ?? '');

/** The message of an error, and the line of the module that threw it. */
function told(cause: unknown, module: string): string {
  if (!(cause instanceof Error)) return String(cause);
  const at = cause.stack?.split('\n').find((line) => line.includes(module));
  const line = at?.slice(at.indexOf(module) + module.length).match(/^:(\d+)/)?.[1];
  return line === undefined ? cause.message : `${cause.message} (${module}:${line})`;
}
