/** Moves a queue pair to ERR in the middle of its work. */
import { IBV_QP_STATE, IBV_QPS_ERR } from '../../verbs/constants.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { Verbs } from '../../verbs/verbs.ts';
import type { InjectionListener } from './injection.ts';

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
