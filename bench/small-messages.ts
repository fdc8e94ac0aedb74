/** Small messages that pass, next to a tenant that waits, over the null device. */
import { createRdmaCoreProvider } from '#src/providers/rdma-core/index.ts';
import { compose, type Interceptor } from '#src/shim/compose.ts';
import * as V from '#src/verbs/index.ts';
import { openNull } from './against-cpp/null-device.ts';
import type { Work } from './conditions-in-turn.ts';

const SMALL_BYTES = 16;
/** So that the tenant with small messages is never ahead of the other one. */
const MOST_WEIGHT = 1e6;

/** Options of fair and drum with which one tenant always waits, and small messages of another one always pass. */
export const PASSING = { windowBytes: 1, passBytes: 2 ** 30 };

/** Posts batches of small messages, and polls until each is complete. A unit is a message. */
export function small(chain: readonly Interceptor[], batch: number): Work {
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
