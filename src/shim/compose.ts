import { InvalidArgumentError } from '../verbs/errors.ts';
import type { PeerVerbs, Provider, WaitSupport } from '../verbs/provider.ts';
import { VERB_NAMES, type Verbs } from '../verbs/verbs.ts';
import type { Gate } from './gate.ts';

/** What an interceptor may change beside verbs: what the provider says of itself, time, and how peers meet. */
const PROPERTIES = [
  'wait',
  'counters',
  'policyStates',
  'configurePolicy',
  'adopt',
  'yieldContext',
  'nowNs',
  'sleep',
  'random',
  'rendezvous',
  'cm',
] as const;
type Property = (typeof PROPERTIES)[number];

/** Wraps a provider: returns the verbs that it overrides, or changes to what the provider says of itself. */
export interface Interceptor {
  /** Used in errors, logs and `provider.interceptors`. */
  readonly name: string;
  /** The verbs that it changes; others stay the same functions. */
  wrap(next: Provider): Partial<Verbs> & PeerVerbs & Partial<Pick<Provider, Property>>;
  /** For drivers that run it elsewhere: what need not go through it. Without one, everything goes. */
  gate?(wait: WaitSupport): Gate;
}

const NO_FUNCTIONS = new Set<string>(['wait', 'adopt', 'rendezvous', 'cm']);
const OVERRIDABLE = new Set<string>([...VERB_NAMES, 'describePeer', 'setPeer', ...PROPERTIES]);

/**
 * Puts interceptors around a provider; the first listed is the outermost, so the application meets it
 * first. The result is a frozen plain object: a verb that nobody overrides keeps the same function.
 * @throws InvalidArgumentError when an interceptor overrides something that is no verb
 */
export function compose(provider: Provider, interceptors: readonly Interceptor[]): Provider {
  let composed = provider;
  for (const interceptor of [...interceptors].reverse()) composed = wrap(composed, interceptor);
  return composed;
}

function wrap(next: Provider, interceptor: Interceptor): Provider {
  const { name } = interceptor;
  const overrides = interceptor.wrap(next);
  for (const [verb, value] of Object.entries(overrides)) {
    if (!OVERRIDABLE.has(verb)) {
      throw new InvalidArgumentError(`interceptor '${name}' overrides '${verb}', which is no verb`);
    }
    if (!NO_FUNCTIONS.has(verb) && typeof value !== 'function') {
      throw new InvalidArgumentError(`interceptor '${name}' overrides '${verb}' with a ${typeof value}`);
    }
  }
  return Object.freeze({ ...next, ...overrides, interceptors: [name, ...next.interceptors] });
}
