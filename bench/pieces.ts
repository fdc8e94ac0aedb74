/** Large messages of several queue pairs over the null device. */
import { step } from '#src/policies/kit/step.ts';
import { createRdmaCoreProvider } from '#src/providers/rdma-core/index.ts';
import { compose, type Interceptor } from '#src/shim/compose.ts';
import type { Policy } from '#src/shim/policy.ts';
import { createShim } from '#src/shim/shim.ts';
import * as V from '#src/verbs/index.ts';
import { anotherQp, openNull } from './against-cpp/null-device.ts';
import type { Work } from './conditions-in-turn.ts';

/** The MTU of the null device, and so the default piece. */
export const PIECE_BYTES = 4096;
const PIECES_PER_MESSAGE = 128;
export const QUEUE_PAIRS = 16;
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
export function pieces(chain: readonly Interceptor[]): Work {
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

/** The same without a policy that decides anything. */
export const cut = () => pieces([createShim(() => cutting)]);
