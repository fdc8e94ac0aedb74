/** PeRF's view of a context, in words. */
import { TRAFFIC_NAMES } from '../../verbs/labels.ts';
import type { PolicyState } from '../../verbs/provider.ts';
import { LARGE_BYTES } from '../kit/classifier.ts';
import type { EgressDevice, Member } from './classifier.ts';
import * as M from './columns.ts';
import { REASONS } from './master.ts';

const KINDS = ['idle', 'D', 'M', 'B'] as const;

/** Omits idle contexts. `splits`: whether a device's messages are split. */
export function describe(
  { context, egressDevices, home, main, allowance }: Member,
  splits: (place: EgressDevice) => boolean,
  thMApp: number,
): Omit<PolicyState, 'policy'>[] {
  const isCut = ({ master, isSplit }: EgressDevice) => isSplit && master.reports[M.CLASS] === M.BANDWIDTH;
  const place = egressDevices.find(isCut) ?? main;
  const { reports, grants } = place.master;
  const of = reports[M.CLASS];
  if (of === M.IDLE) return [];
  const arity = reports[M.ACTIVE_QPS] > 1 ? 'multi' : 'single';
  const mean = `messages of ${Math.round(reports[M.MEAN_BYTES])} bytes`;
  const queue = `${reports[M.QUEUE_LENGTH]} outstanding`;
  const does = [
    splits(place) && of === M.BANDWIDTH ? 'its messages are split' : '',
    place.isSplit && of !== M.BANDWIDTH ? 'its messages are paced' : '',
    allowance > 0 ? `${allowance} of ${reports[M.ACTIVE_QPS]} queue pairs at a time` : '',
  ].filter((text) => text !== '');
  // Next to split large messages, "nothing to isolate" would be wrong.
  const isSmall = does.length === 0 && of !== M.BANDWIDTH && arity === 'single';
  const why = isSmall ? 'small messages are never split' : REASONS[grants[M.REASON]];
  return [
    {
      device: context.device,
      tenant: context.tenant,
      kind: `${KINDS[of]}_${arity}`,
      because:
        place.declared === of
          ? `declared as ${TRAFFIC_NAMES[of]}`
          : of === M.BANDWIDTH
            ? `${mean}, ${LARGE_BYTES} or more`
            : `${mean}, ${queue}, ${of === M.MESSAGES ? 'more than' : 'at most'} ${thMApp}`,
      does: does.length > 0 ? does.join(', ') : 'left alone',
      why: why + (place === home ? '' : ` on ${place.device}`),
    },
  ];
}
