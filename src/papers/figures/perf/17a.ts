import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, rate } from '../../engine/panels.ts';

/** Longer pieces than half the egress FIFO the policy would shorten, so it is told of a larger one. */
const KIB = 1024;
const SIZES = [1, 2, 4, 8, 16, 24, 32, 64].map((kib) => kib * KIB);
const HALF = 24 * KIB;
const cut = (bytes: number) => {
  const believes = bytes > HALF ? `,egressFifoBytes=${1 << 20}` : '';
  return { policy: `perf:subMsgSizeBytes=${bytes},zeroWaitUnitBytes=1024${believes}` };
};

export default {
  title: 'B_App and M_App by SUB_MSG_SIZE',
  source: 'PeRF appendix A, fig. 17(a): little difference beyond 8 KB',
  note: 'Here pieces longer than the egress FIFO (48 KiB) cost bandwidth, which the paper does not show.',
  x: { title: 'SUB_MSG_SIZE', values: SIZES, log: true, bytes: true },
  mix: () => mix('cx6-100g', ['B:size=1MiB', 'M:size=16']),
  policies: [],
  series: { perf: cut },
  panels: [bandwidth('B'), rate('M')],
} satisfies Figure<number>;
