/**
 * What the processes of the benchmark measure: messages of 16 queue pairs over the null device, the scheduler alone, and
 * small messages that pass, next to a tenant that waits.
 */
import { fair } from '#src/policies/fair/index.ts';
import { fairOptions } from '#src/policies/fair/options.ts';
import { bareDevice } from '../array-device.ts';
import type { Groups } from '../conditions-in-turn.ts';
import { cut, PIECE_BYTES, pieces, QUEUE_PAIRS } from '../pieces.ts';
import { PASSING, small } from '../small-messages.ts';
import { scheduled } from './scheduler.ts';

const MANY_QUEUE_PAIRS = 10_000;
const MANY_TENANTS = 1000;

/** A window that is never full: the queues of the device limit what is in flight, as without the policy. */
const OPEN = { windowBytes: 1e9 };
const policy = (options: object) => [fair(fairOptions.parse(options))];

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
