/** Makes verbs fail at a chosen call. */
import { HDR_ERRNO, HDR_REASON } from '../../verbs/layout.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { Verbs } from '../../verbs/verbs.ts';
import type { Rings } from '../rings.ts';
import type { FaultPlan, InjectionListener } from './options.ts';
import {
  FAILABLE_VERBS,
  type FailableVerb,
  faultError,
  POST_VERBS,
  usualErrno,
  usualReason,
} from './verbs.ts';

type AnyVerb = (...args: never[]) => unknown;
type PostVerb = (typeof POST_VERBS)[number];

/** The verbs that may fail. '*' excludes pollCq: idle programs poll continuously, so call numbers would vary. */
function chosenVerbs(verb: FaultPlan['verb']): readonly FailableVerb[] {
  if (verb === undefined) return [];
  return verb === '*' ? FAILABLE_VERBS.filter((name) => name !== 'pollCq') : [verb];
}

/** Wraps the verbs that the plan names; they share one call count. */
export function failingVerbs(
  next: Provider,
  rings: Rings,
  plan: FaultPlan,
  onInject: InjectionListener,
): Partial<Verbs> {
  let calls = 0;
  const fails = (verb: FailableVerb): boolean => {
    calls++;
    if (plan.persistent ? calls < plan.call : calls !== plan.call) return false;
    onInject({ what: verb, number: calls });
    return true;
  };
  const refuse = (ring: number, errno: number) => {
    const words = rings.wr(ring)?.words;
    if (words === undefined) return;
    words[HDR_ERRNO] = errno;
    words[HDR_REASON] = plan.reason ?? usualReason(errno);
  };
  const control =
    (verb: FailableVerb): AnyVerb =>
    (...args) => {
      if (fails(verb)) throw faultError(verb, calls, plan);
      return (next[verb] as AnyVerb)(...args);
    };
  const post =
    (verb: PostVerb): Verbs[PostVerb] =>
    (queue, ring, start, count) => {
      if (!fails(verb)) return next[verb](queue, ring, start, count);
      const taken = Math.min(plan.taken, count - 1);
      const posted = taken > 0 ? next[verb](queue, ring, start, taken) : 0;
      // If the device refused an earlier request, its own errno and reason stay.
      if (posted === Math.max(0, taken)) refuse(ring, plan.errno ?? usualErrno(verb));
      return posted;
    };
  const validateSend: Verbs['validateSend'] = (qp, ring, index) => {
    if (!fails('validateSend')) return next.validateSend(qp, ring, index);
    const errno = plan.errno ?? usualErrno('validateSend');
    refuse(ring, errno);
    return errno;
  };
  const verbs: Record<string, unknown> = {};
  for (const verb of chosenVerbs(plan.verb)) {
    if (verb === 'validateSend') verbs[verb] = validateSend;
    else if (isPost(verb)) verbs[verb] = post(verb);
    else verbs[verb] = control(verb);
  }
  return verbs as Partial<Verbs>;
}

function isPost(verb: FailableVerb): verb is PostVerb {
  return (POST_VERBS as readonly string[]).includes(verb);
}
