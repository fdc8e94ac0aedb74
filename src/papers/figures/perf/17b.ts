import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, rate } from '../../engine/panels.ts';

export default {
  title: 'B_App and M_App by 0_WAIT_UNIT',
  source: 'PeRF appendix A, fig. 17(b): a larger one gives B_App more and M_App less',
  note: 'With fixed waits: adaptive ones do not come from the unit. 900 is PeRF_S.',
  x: { title: '0_WAIT_UNIT', values: [512, 900, 1024, 1536, 2048, 4096], bytes: true },
  mix: () => mix('cx6-100g', ['B:size=1MiB', 'M:size=16']),
  policies: [],
  series: { 'perf:waits=fixed': (unit) => ({ policy: `perf:waits=fixed,zeroWaitUnitBytes=${unit}` }) },
  panels: [bandwidth('B'), rate('M')],
} satisfies Figure<number>;
