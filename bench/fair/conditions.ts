/**
 * What the processes of the benchmark measure: messages of 16 queue pairs over the null device, the scheduler alone, and
 * small messages that pass, next to a tenant that waits.
 */
import { CoordinatorRegistry } from '#src/coordinator/registry.ts';
import { fair } from '#src/policies/fair/index.ts';
import { fairOptions } from '#src/policies/fair/options.ts';
import { Scheduler } from '#src/policies/fair/scheduler.ts';
import {
  bareDevice,
  completing,
  contextOf,
  Device,
  FLYING,
  PIECE_BYTES as LINK_PIECE_BYTES,
  qpsOf,
} from '../array-device.ts';
import type { Groups, Work } from '../conditions-in-turn.ts';
import { cut, PIECE_BYTES, pieces, QUEUE_PAIRS } from '../pieces.ts';
import { PASSING, small } from '../small-messages.ts';

const MANY_QUEUE_PAIRS = 10_000;
const MANY_TENANTS = 1000;

/** A window that is never full: the queues of the device limit what is in flight, as without the policy. */
const OPEN = { windowBytes: 1e9 };
const policy = (options: object) => [fair(fairOptions.parse(options))];

/** The scheduler of the policy. A unit is a piece and its completion. */
function scheduled(queuePairs: number, tenants: number): Work {
  const contexts = Array.from({ length: tenants }, (_, index) => contextOf(`t${index}`, index));
  const qps = qpsOf(queuePairs, (index) => contexts[index % tenants]);
  const device = new Device(qps);
  const { out } = device;
  const options = fairOptions.parse({ pieceBytes: LINK_PIECE_BYTES, windowBytes: FLYING * LINK_PIECE_BYTES });
  const scheduler = new Scheduler(0, contexts[0], options, new CoordinatorRegistry());
  for (const context of contexts) scheduler.open(context, out);
  for (const qp of qps) scheduler.add(qp, out);
  for (const qp of qps) scheduler.feed(qp, out);
  return completing(device, (qp) => scheduler.onCompleted(qp, out));
}

/** What is compared. */
export const GROUPS: Groups = {
  pieces: {
    cut,
    fair: () => pieces(policy(OPEN)),
    'fair, window of 8 pieces': () => pieces(policy({ windowBytes: 8 * PIECE_BYTES })),
  },
  scheduler: {
    device: () => bareDevice(QUEUE_PAIRS),
    '16 queue pairs of 2 tenants': () => scheduled(QUEUE_PAIRS, 2),
    '10,000 queue pairs of 1,000 tenants': () => scheduled(MANY_QUEUE_PAIRS, MANY_TENANTS),
  },
  'small, batch 1': { none: () => small([], 1), fair: () => small(policy(PASSING), 1) },
  'small, batch 32': { none: () => small([], 32), fair: () => small(policy(PASSING), 32) },
};
