/** What the policy's scheduler takes for a piece. */
import { CoordinatorRegistry } from '#src/coordinator/registry.ts';
import { palosOptions } from '#src/policies/palos/options.ts';
import { Scheduler } from '#src/policies/palos/scheduler.ts';
import { completing, contextOf, Device, FLYING, PIECE_BYTES, qpsOf } from '../array-device.ts';
import type { Work } from '../conditions-in-turn.ts';

const WEIGHTS = 3;

const groupName = (index: number, groups: number) => `g${index % groups}`;

/** Queue pairs in groups, with weights of both. */
export interface Load {
  readonly queuePairs: number;
  readonly groups: number;
  /** Default: the policy's. With 2, a mean chunk is a piece. */
  readonly chunkMtus?: number;
}

/** The scheduler of the policy. A unit is a piece and its completion. */
export function scheduled({ queuePairs, groups, ...options }: Load): Work {
  const context = contextOf('t');
  const labelsAt = (index: number) => ({ group: groupName(index, groups), qpWeight: 1 + (index % WEIGHTS) });
  const qps = qpsOf(queuePairs, () => context, labelsAt);
  const device = new Device(qps);
  const { out } = device;
  const chosen = palosOptions.parse({ ...options, windowBytes: FLYING * PIECE_BYTES });
  const scheduler = new Scheduler(0, context, chosen, new CoordinatorRegistry());
  scheduler.open(context, out);
  for (let group = 0; group < groups; group++)
    scheduler.weights.setGroupWeight('=t', groupName(group, groups), 10 + group);
  for (const qp of qps) scheduler.add(qp, out);
  for (const qp of qps) scheduler.feed(qp, out);
  return completing(device, (qp) => scheduler.onCompleted(qp, out));
}
