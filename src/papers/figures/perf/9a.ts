import type { Figure } from '../../engine/figure.ts';
import { bandwidth } from '../../engine/panels.ts';
import { besideMultiB, QPS_OF_B } from '../../perf/multi.ts';

export default {
  title: 'QP-level isolation: B_App_single beside B_App_multi',
  source: 'PeRF 5.2.3, fig. 9(a): PeRF keeps the shares, whatever the number of queue pairs',
  x: QPS_OF_B,
  mix: besideMultiB('B:name=single,size=1MiB'),
  panels: [
    bandwidth('single', { title: 'Bandwidth of B_App_single' }),
    bandwidth('multi', { title: 'Bandwidth of B_App_multi' }),
  ],
} satisfies Figure<number>;
