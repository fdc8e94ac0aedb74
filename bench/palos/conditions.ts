/** What the processes of the benchmark measure: messages of 16 queue pairs over the null device, and the scheduler alone. */
import { step } from '#src/policies/kit/step.ts';
import { palos } from '#src/policies/palos/index.ts';
import { palosOptions } from '#src/policies/palos/options.ts';
import { createRdmaCoreProvider } from '#src/providers/rdma-core/index.ts';
import { compose, type Interceptor } from '#src/shim/compose.ts';
import type { Policy } from '#src/shim/policy.ts';
import { createShim } from '#src/shim/shim.ts';
import * as V from '#src/verbs/index.ts';
import { anotherQp, openNull } from '../against-cpp/null-device.ts';
import type { Groups, Work } from '../conditions-in-turn.ts';
import { bareDevice, scheduled } from './scheduler.ts';

/** The MTU of the null device, and so the default piece. */
const PIECE_BYTES = 4096;
const PIECES_PER_MESSAGE = 128;
const QUEUE_PAIRS = 16;
/** Queue pairs that share one weight of each kind, as in section IV-B. */
const MANY = 10_000;
const MANY_GROUPS = 100;

/** Cuts every message, and does nothing else. */
const cutting: Policy = {
  name: 'cutting',
  needs: { wait: 'none' },
  slots: 16,
  onload: () => 0,
  feed(qp, out) {
    while (step(qp, out, PIECE_BYTES) >= 0);
  },
};

/** Several queue pairs post a message each, and poll until all are complete. A unit is a piece. */
function pieces(chain: readonly Interceptor[]): Work {
  const bench = openNull(compose(createRdmaCoreProvider(), chain));
  const { provider, cq, send, wcs } = bench;
  const { postSend, pollCq } = provider;
  const qps = [bench.qp, ...Array.from({ length: QUEUE_PAIRS - 1 }, () => anotherQp(bench, 2048))];
  const bytes = PIECES_PER_MESSAGE * PIECE_BYTES;
  const round = () => {
    for (const qp of qps) {
      send.clear().write(qp, V.IBV_SEND_SIGNALED, 0x10000000, bytes, 7, 0x20000000, 9);
      postSend(qp, send.ring, 0, 1);
    }
    for (let done = 0; done < qps.length; ) done += pollCq(cq, wcs.ring, 0, 16);
  };
  return (units) => {
    for (let done = 0; done < units; done += QUEUE_PAIRS * PIECES_PER_MESSAGE) round();
  };
}

const under = (options: object) => pieces([palos(palosOptions.parse(options))]);
/** A window that is never full: the queues of the device limit what is in flight, as without the policy. */
const OPEN = { windowBytes: 1e9 };

/** What is compared. */
export const GROUPS: Groups = {
  pieces: {
    cut: () => pieces([createShim(() => cutting)]),
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
