/**
 * The interceptors of this process, which `isoverbs/register` sets and openDevice() uses, and the providers that
 * ISOVERBS_PROVIDER names.
 */
import type { Driver } from './drivers/index.ts';
import type { Replay } from './interceptors/index.ts';
import { compose, type Interceptor } from './shim/compose.ts';
import { shimCounters, sumCounters } from './shim/counters.ts';
import { ConfigError } from './verbs/errors.ts';
import type { Provider, ShimCounters } from './verbs/provider.ts';
import { didYouMean } from './verbs/suggestions.ts';

/** All copies of this package in a process share the state, hence the global symbol with a version. */
const KEY = Symbol.for('isoverbs.interceptors.1');

export interface ProcessInterceptors {
  /** URL of the `isoverbs/register` module that registered, if any. */
  registeredBy?: string;
  /** The policies, outermost first. */
  interceptors: readonly Interceptor[];
  /** The policies' names and options, and where they run. */
  policies?: readonly { name: string; options: Record<string, unknown> }[];
  driver?: Driver;
  /** Interceptors around the policies, even around those that a program names; outermost first. */
  outside: readonly Interceptor[];
  /** Interceptors between the policies and the device, outermost first. */
  inside: readonly Interceptor[];
  /** A recording that answers in place of all devices. */
  replay?: Replay;
  /** Device to open when the program names none. */
  device?: string;
  tenant?: string;
  /** Path of the facts file. */
  facts?: string;
  /** The device name of each context opened so far. */
  opened: string[];
  /** Prints a line. Absent unless the log level is info or debug. */
  report?: (line: string) => void;
  /** The lines printed so far. */
  reported?: Set<string>;
  /** The providers of those contexts, with their interceptors. */
  providers: Set<Provider>;
}

/** The sum of the counters of all shims in this process. */
export function countersOfProcess(): ShimCounters {
  return sumCounters([...processInterceptors().providers].map(shimCounters));
}

export function processInterceptors(): ProcessInterceptors {
  const holder = globalThis as { [KEY]?: ProcessInterceptors };
  holder[KEY] ??= { interceptors: [], outside: [], inside: [], opened: [], providers: new Set() };
  return holder[KEY];
}

/** Prints a line, unless it was printed before. */
export function reportOnce(line: string): void {
  const state = processInterceptors();
  state.reported ??= new Set();
  if (state.report === undefined || state.reported.has(line)) return;
  state.reported.add(line);
  state.report(line);
}

const composed = new WeakMap<Provider, WeakMap<Interceptor, Provider>>();

/** Like compose(), but contexts with the same interceptor around the same provider share the result. */
export function composeOnce(provider: Provider, interceptors: readonly Interceptor[]): Provider {
  return interceptors.reduceRight<Provider>((next, interceptor) => {
    const known = composed.get(next) ?? new WeakMap<Interceptor, Provider>();
    composed.set(next, known);
    const wrapped = known.get(interceptor) ?? compose(next, [interceptor]);
    known.set(interceptor, wrapped);
    return wrapped;
  }, provider);
}

/** The built-in providers. */
export type ProviderName = 'rdma-core' | 'sim' | 'soft';

export const PROVIDER_NAMES: readonly ProviderName[] = ['rdma-core', 'sim', 'soft'];

/** The providers that ISOVERBS_PROVIDER names, the preferred one first; [] if the variable is not set. @throws ConfigError */
export function namedProviders(): ProviderName[] {
  const names = (process.env.ISOVERBS_PROVIDER ?? '').split(',').map((name) => name.trim());
  return names.filter((name) => name !== '').map(requireProvider);
}

function requireProvider(name: string): ProviderName {
  const found = PROVIDER_NAMES.find((one) => one === name);
  if (found !== undefined) return found;
  throw new ConfigError(
    `ISOVERBS_PROVIDER: unknown provider '${name}'; ${didYouMean(name, PROVIDER_NAMES)}use one of ${PROVIDER_NAMES.join(', ')}`,
  );
}
