/**
 * Makes things go wrong: a verb fails at its n-th call, completions are lost, late, out of order or failed, a queue
 * pair dies in the middle of its work. The same seed and the same program give the same faults.
 */
import type { Interceptor } from '../../shim/compose.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { Verbs } from '../../verbs/verbs.ts';
import { Rings } from '../rings.ts';
import { failingVerbs } from './calls.ts';
import { CompletionFaults } from './completions.ts';
import type { InjectionListener } from './injection.ts';
import { killingVerbs } from './kill.ts';
import { type FaultOptions, type FaultPlan, faultOptions } from './options.ts';

export type { Injection, InjectionListener } from './injection.ts';
export { type FaultOptions, faultOptions } from './options.ts';
export { FAILABLE_VERBS, type FailableVerb } from './verbs.ts';

/**
 * Makes the interceptor. What it counts, it counts on each provider that it is put around; several of them compose.
 * @throws ZodError for wrong options: createInterceptor('fault', options) says it in words
 */
export function fault(options: FaultOptions, onInject: InjectionListener = () => {}): Interceptor {
  const plan = faultOptions.parse(options);
  return { name: 'fault', wrap: (next) => faultyVerbs(next, plan, onInject) };
}

/**
 * From the inside out: a verb that fails touches nothing of what the others do. Posts leave errno and reason in the
 * ring, so the rings must be known by handle.
 */
function faultyVerbs(next: Provider, plan: FaultPlan, onInject: InjectionListener): Partial<Verbs> {
  const rings = new Rings();
  let verbs: Partial<Verbs> = {};
  const add = (wrap: (inner: Provider) => Partial<Verbs>) => {
    verbs = { ...verbs, ...wrap({ ...next, ...verbs }) };
  };
  add((inner) => rings.verbs(inner));
  if (plan.killAt !== undefined) add((inner) => killingVerbs(inner, plan.killAt as number, onInject));
  if (plan.completion !== undefined)
    add((inner) => new CompletionFaults(inner, rings, plan, onInject).verbs());
  if (plan.verb !== undefined) add((inner) => failingVerbs(inner, rings, plan, onInject));
  return verbs;
}
