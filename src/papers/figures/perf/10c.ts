import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, rate, stated } from '../../engine/panels.ts';
import { QPS } from '../../perf/multi.ts';

const everywhere = (value: number) =>
  stated(
    'perf:paper',
    '5.2.3',
    QPS.map((qps) => [qps, value]),
  );

export default {
  title: 'QP-level isolation: B_App_single beside M_App_multi',
  source: 'PeRF 5.2.3, fig. 10(c): 88 Gbps and 9 Mmps, whatever the number of queue pairs',
  x: { title: 'queue pairs of M_App_multi', values: QPS },
  mix: (qps) => mix('cx6-100g', ['B:size=1MiB', `M:size=16,qps=${qps}`], { duration: '10ms', warmup: '2ms' }),
  panels: [
    bandwidth('B', { title: 'Bandwidth of B_App_single', paper: everywhere(88) }),
    rate('M', { title: 'Message rate of M_App_multi', paper: everywhere(9) }),
  ],
} satisfies Figure<number>;
