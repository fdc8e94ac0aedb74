/**
 * Injects faults: a verb fails at its n-th call, completions fail, get lost, arrive late or change order, or a queue
 * pair goes to ERR in the middle of its work. The same seed and the same program produce the same faults.
 */
import type { Interceptor } from '../../shim/compose.ts';
import { IBV_QP_STATE, IBV_QPS_ERR } from '../../verbs/constants.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { Verbs } from '../../verbs/verbs.ts';
import { Rings } from '../rings.ts';
import { failingVerbs } from './calls.ts';
import { CompletionFaults } from './completions.ts';
import { type FaultOptions, type FaultPlan, faultOptions, type InjectionListener } from './options.ts';

export type { Injection, InjectionListener } from './options.ts';
export { type FaultOptions, faultOptions } from './options.ts';
export { FAILABLE_VERBS, type FailableVerb } from './verbs.ts';

/**
 * Creates the interceptor. It counts separately for each provider that it wraps. Several interceptors can be stacked.
 * @throws ZodError for wrong options; createInterceptor('fault', options) reports them in words
 */
export function fault(options: FaultOptions, onInject: InjectionListener = () => {}): Interceptor {
  const plan = faultOptions.parse(options);
  return { name: 'fault', wrap: (next) => faultyVerbs(next, plan, onInject) };
}

/**
 * Wraps the verbs in one fault after another; a call that an outer fault makes fail does not reach the inner ones.
 * Rings are tracked because a failing post leaves errno and reason in its ring.
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

/** Moves the queue pair of the `killAt`-th send request to ERR right after that post. */
export function killingVerbs(
  next: Provider,
  killAt: number,
  onInject: InjectionListener,
): Pick<Verbs, 'postSend'> {
  let sent = 0;
  return {
    postSend(qp, ring, start, count) {
      const before = killAt - sent;
      if (before < 1 || before > count) {
        const posted = next.postSend(qp, ring, start, count);
        sent += posted;
        return posted;
      }
      const posted = next.postSend(qp, ring, start, before);
      sent += posted;
      if (posted < before) return posted;
      next.modifyQp(qp, { qpState: IBV_QPS_ERR }, IBV_QP_STATE);
      onInject({ what: 'kill', number: killAt });
      return before === count ? posted : posted + next.postSend(qp, ring, start + before, count - before);
    },
  };
}
