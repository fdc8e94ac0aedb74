/** What the processes of the benchmark measure: messages of 16 queue pairs over the null device, and the scheduler alone. */
import { palos } from '#src/policies/palos/index.ts';
import { palosOptions } from '#src/policies/palos/options.ts';
import { bareDevice } from '../array-device.ts';
import type { Groups } from '../conditions-in-turn.ts';
import { cut, PIECE_BYTES, pieces, QUEUE_PAIRS } from '../pieces.ts';
import { scheduled } from './scheduler.ts';

/** Queue pairs that share one weight of each kind, as in section IV-B. */
const MANY = 10_000;
const MANY_GROUPS = 100;

const under = (options: object) => pieces([palos(palosOptions.parse(options))]);
/** A window that is never full: the queues of the device limit what is in flight, as without the policy. */
const OPEN = { windowBytes: 1e9 };

/** What is compared. */
export const GROUPS: Groups = {
  pieces: {
    cut,
    palos: () => under(OPEN),
    'palos, a chunk is a piece': () => under({ ...OPEN, chunkMtus: 1 }),
    'palos, window of 8 pieces': () => under({ windowBytes: 8 * PIECE_BYTES }),
  },
  scheduler: {
    device: () => bareDevice(QUEUE_PAIRS),
    '16 queue pairs': () => scheduled({ queuePairs: QUEUE_PAIRS, groups: 2 }),
    '16 queue pairs, a chunk is a piece': () =>
      scheduled({ queuePairs: QUEUE_PAIRS, groups: 2, chunkMtus: 2 }),
    '10,000 queue pairs': () => scheduled({ queuePairs: MANY, groups: MANY_GROUPS }),
    '10,000 queue pairs, a chunk is a piece': () =>
      scheduled({ queuePairs: MANY, groups: MANY_GROUPS, chunkMtus: 2 }),
  },
};
