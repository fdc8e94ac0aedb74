/** The interceptors of this process: put here by `isoverbs/register`, taken by openDevice(). */
import type { Driver } from './drivers/index.ts';
import type { Replay } from './interceptors/index.ts';
import { compose, type Interceptor } from './shim/compose.ts';
import { shimCounters, sumCounters } from './shim/counters.ts';
import type { Provider, ShimCounters } from './verbs/provider.ts';

/** Shared by all copies of this package in a process, hence the global symbol and the version in it. */
const KEY = Symbol.for('isoverbs.interceptors.1');

export interface ProcessInterceptors {
  /** The module that `isoverbs/register` was, once it has been loaded. */
  registeredBy?: string;
  /** The policies, outermost first. */
  interceptors: readonly Interceptor[];
  /** Their names and options, and where they run. */
  policies?: readonly { name: string; options: Record<string, unknown> }[];
  driver?: Driver;
  /** Around the policies, outermost first, whichever a program names. */
  outside: readonly Interceptor[];
  /** Between the policies and the device, outermost first. */
  inside: readonly Interceptor[];
  /** Stands in place of all devices: answers from a recording. */
  replay?: Replay;
  /** Device to open when the program names none. */
  device?: string;
  tenant?: string;
  /** Names of the devices of the contexts opened so far, one each time. */
  opened: string[];
  /** Says a line to the person who runs the program, if he wants to hear of such things. */
  report?: (line: string) => void;
  /** What was said. */
  reported?: Set<string>;
  /** The providers of those contexts, with their interceptors. */
  providers: Set<Provider>;
}

/** What all shims of this process counted. */
export function countersOfProcess(): ShimCounters {
  return sumCounters([...processInterceptors().providers].map(shimCounters));
}

export function processInterceptors(): ProcessInterceptors {
  const holder = globalThis as { [KEY]?: ProcessInterceptors };
  holder[KEY] ??= { interceptors: [], outside: [], inside: [], opened: [], providers: new Set() };
  return holder[KEY];
}

/** Says a line, but no line twice. */
export function reportOnce(line: string): void {
  const slot = processInterceptors();
  slot.reported ??= new Set();
  if (slot.report === undefined || slot.reported.has(line)) return;
  slot.reported.add(line);
  slot.report(line);
}

const composed = new WeakMap<Provider, WeakMap<Interceptor, Provider>>();

/** As compose(), but the same interceptor around the same provider is made once: its contexts share it. */
export function composeOnce(provider: Provider, interceptors: readonly Interceptor[]): Provider {
  return interceptors.reduceRight<Provider>((next, interceptor) => {
    const known = composed.get(next) ?? new WeakMap<Interceptor, Provider>();
    composed.set(next, known);
    const wrapped = known.get(interceptor) ?? compose(next, [interceptor]);
    known.set(interceptor, wrapped);
    return wrapped;
  }, provider);
}
