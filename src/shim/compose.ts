import { InvalidArgumentError } from '../verbs/errors.ts';
import type { PeerVerbs, Provider, WaitSupport } from '../verbs/provider.ts';
import { VERB_NAMES, type Verbs } from '../verbs/verbs.ts';
import type { Gate } from './gate.ts';

/**
 * The members that an interceptor may override in addition to verbs: the provider's description, time, and connection
 * set-up.
 */
const PROPERTIES = [
  'wait',
  'counters',
  'watchUncut',
  'sampleLatency',
  'policyStates',
  'policyGauges',
  'pieceQps',
  'configurePolicy',
  'describeNic',
  'adopt',
  'standby',
  'yieldContext',
  'nowNs',
  'sleep',
  'createAlarm',
  'completionsKept',
  'random',
  'rendezvous',
  'cm',
] as const;
type Property = (typeof PROPERTIES)[number];

/** Wraps a provider: overrides some of its verbs and properties. */
export interface Interceptor {
  /** Used in errors, logs and `provider.interceptors`. */
  readonly name: string;
  /** The name with options, in the form of ISOVERBS_POLICY, for traces and recordings. Default: the name. */
  readonly spec?: string;
  /** Returns the verbs that the interceptor overrides; all others stay the same functions. */
  wrap(next: Provider): Partial<Verbs> & PeerVerbs & Partial<Pick<Provider, Property>>;
  /** For drivers that run it in another thread: which requests may bypass it. Without a gate, none may. */
  gate?(wait: WaitSupport): Gate;
}

const NO_FUNCTIONS = new Set<string>(['wait', 'adopt', 'standby', 'rendezvous', 'cm']);
const OVERRIDABLE = new Set<string>([...VERB_NAMES, 'describePeer', 'setPeer', 'namePeer', ...PROPERTIES]);

/**
 * Puts interceptors around a provider. The first listed is the outermost: the application's calls reach it first. The
 * result is a frozen plain object; a verb that no interceptor overrides is the provider's own function.
 * @throws InvalidArgumentError when an interceptor overrides something that is not a verb
 */
export function compose(provider: Provider, interceptors: readonly Interceptor[]): Provider {
  let composed = provider;
  for (const interceptor of [...interceptors].reverse()) composed = wrap(composed, interceptor);
  return composed;
}

function wrap(next: Provider, interceptor: Interceptor): Provider {
  const { name, spec = name } = interceptor;
  const overrides = interceptor.wrap(next);
  for (const [verb, value] of Object.entries(overrides)) {
    if (!OVERRIDABLE.has(verb)) {
      throw new InvalidArgumentError(`interceptor '${name}' overrides '${verb}', which is not a verb`);
    }
    if (!NO_FUNCTIONS.has(verb) && typeof value !== 'function') {
      throw new InvalidArgumentError(`interceptor '${name}' overrides '${verb}' with a ${typeof value}`);
    }
  }
  // Alarms below keep the time of the clock and the sleeps that are replaced here.
  const alarms = 'nowNs' in overrides || 'sleep' in overrides ? { createAlarm: undefined } : {};
  const interceptors = [name, ...next.interceptors];
  const specs = [spec, ...(next.specs ?? next.interceptors)];
  return Object.freeze({ ...next, ...alarms, ...overrides, interceptors, specs });
}
