import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, rate } from '../../engine/panels.ts';
import { QPS } from '../../perf/multi.ts';

export default {
  title: 'B_App_single beside M_App_multi with a larger QNum_allow',
  source: 'PeRF 5.2.3, fig. 10(d) to (f): a message rate comparable with bare',
  note: 'The paper has its values of QNum_allow in the figures only.',
  also: ['10e', '10f'],
  x: { title: 'queue pairs of M_App_multi', values: QPS },
  mix: (qps) => mix('cx6-100g', ['B:size=1MiB', `M:size=16,qps=${qps}`], { duration: '10ms', warmup: '2ms' }),
  policies: ['none', 'perf', 'perf:qNumAllow=2', 'perf:qNumAllow=4', 'perf:qNumAllow=8'],
  panels: [
    bandwidth('B', { title: 'Bandwidth of B_App_single' }),
    rate('M', { title: 'Message rate of M_App_multi' }),
  ],
} satisfies Figure<number>;
