import type { Figure } from '../../engine/figure.ts';
import { bandwidth, rate } from '../../engine/panels.ts';
import { besideMultiB, QPS_OF_B } from '../../perf/multi.ts';

export default {
  title: 'QP-level isolation: M_App_single beside B_App_multi',
  source: 'PeRF 5.2.3, fig. 9(b), and (d) for Justitia, which halves both',
  also: ['9d'],
  x: QPS_OF_B,
  mix: besideMultiB('M:size=16'),
  panels: [rate('M'), bandwidth('multi', { title: 'Bandwidth of B_App_multi' })],
} satisfies Figure<number>;
