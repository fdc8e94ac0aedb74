/**
 * What the processes of the benchmark measure: messages of 16 queue pairs over the null device, the scheduler alone, and
 * small messages that pass, next to a tenant that waits.
 */
import { CoordinatorRegistry } from '#src/coordinator/registry.ts';
import { fair } from '#src/policies/fair/index.ts';
import { fairOptions } from '#src/policies/fair/options.ts';
import { Scheduler } from '#src/policies/fair/scheduler.ts';
import { createRdmaCoreProvider } from '#src/providers/rdma-core/index.ts';
import { compose, type Interceptor } from '#src/shim/compose.ts';
import * as V from '#src/verbs/index.ts';
import { openNull } from '../against-cpp/null-device.ts';
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

const MANY_QUEUE_PAIRS = 10_000;
const MANY_TENANTS = 1000;
const SMALL_BYTES = 16;
/** So that the tenant with small messages is never ahead of the other one. */
const MOST_WEIGHT = 1e6;

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

/** Posts batches of small messages, and polls until each is complete. A unit is a message. */
function small(chain: readonly Interceptor[], batch: number): Work {
  const provider = compose(createRdmaCoreProvider(), chain);
  const waiting = openNull(provider, { tenant: 'waiting' });
  const bytes = 2 ** 30;
  // Its completions are never polled, so that the window stays full.
  for (let i = 0; chain.length > 0 && i < 2; i++) {
    waiting.send.clear().write(waiting.qp, 0, 0x10000000, bytes, 7, 0x20000000, 9);
    provider.postSend(waiting.qp, waiting.send.ring, 0, 1);
  }
  const labels = { weight: MOST_WEIGHT };
  const { qp, cq, send, wcs } = openNull(provider, { tenant: 'small', labels });
  send.clear();
  for (let i = 0; i < batch; i++) {
    const flags = i === batch - 1 ? V.IBV_SEND_SIGNALED : 0;
    send.write(qp, flags, 0x10000000, SMALL_BYTES, 7, 0x20000000, 9);
  }
  return (units) => {
    for (let done = 0; done < units; done += batch) {
      provider.postSend(qp, send.ring, 0, batch);
      while (provider.pollCq(cq, wcs.ring, 0, 16) === 0);
    }
  };
}

const PASSING = { windowBytes: 1, passBytes: 2 ** 30 };

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
