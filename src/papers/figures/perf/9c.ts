import type { Figure } from '../../engine/figure.ts';
import { bandwidth, latencies } from '../../engine/panels.ts';
import { besideMultiB, QPS_OF_B } from '../../perf/multi.ts';

export default {
  title: 'QP-level isolation: D_App_single beside B_App_multi',
  source: 'PeRF 5.2.3, fig. 9(c), and (e), (f) for Justitia, where D waits marginally less',
  also: ['9e', '9f'],
  x: QPS_OF_B,
  mix: besideMultiB('D:size=16,think=1us'),
  panels: [...latencies<number>('D'), bandwidth('multi', { title: 'Bandwidth of B_App_multi' })],
} satisfies Figure<number>;
