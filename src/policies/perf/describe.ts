/** What PeRF thinks of a context, in words. */
import { REASONS } from '../../coordinator/master.ts';
import * as M from '../../coordinator/members.ts';
import type { PolicyState } from '../../verbs/provider.ts';
import { LARGE_BYTES, type Member } from './classifier.ts';

const KINDS = ['idle', 'D', 'M', 'B'] as const;

/** Nothing of a context that does not send. */
export function describe(
  { context, page, elsewhere }: Member,
  splits: boolean,
  thMApp: number,
): Omit<PolicyState, 'policy'>[] {
  const { counters, grants } = page;
  const of = counters[M.CLASS];
  if (of === M.IDLE) return [];
  const arity = counters[M.ACTIVE_QPS] > 1 ? 'multi' : 'single';
  const mean = `messages of ${Math.round(counters[M.MEAN_BYTES])} bytes`;
  const queue = `${counters[M.QUEUE_LENGTH]} outstanding`;
  const allow = grants[M.QNUM_ALLOW];
  const does = [
    splits && of === M.BANDWIDTH ? 'its messages are split' : '',
    allow > 0 ? `${allow} of ${counters[M.ACTIVE_QPS]} queue pairs at a time` : '',
  ].filter((text) => text !== '');
  return [
    {
      device: context.device,
      tenant: context.tenant,
      kind: `${KINDS[of]}_${arity}`,
      because:
        of === M.BANDWIDTH
          ? `${mean}, ${LARGE_BYTES} or more`
          : `${mean}, ${queue}, ${of === M.MESSAGES ? 'more than' : 'at most'} ${thMApp}`,
      does: does.length > 0 ? does.join(', ') : 'left alone',
      why: REASONS[(elsewhere.find((other) => other.grants[M.SPLIT] === 1) ?? page).grants[M.WHY]],
    },
  ];
}
