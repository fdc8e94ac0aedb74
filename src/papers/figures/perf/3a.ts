import { gbps } from '../../../mix/metrics.ts';
import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';

export default {
  title: 'B_App_single beside B_App_multi',
  source: 'PeRF 2.3.2, fig. 3(a)',
  x: { title: 'queue pairs of B_App_multi', values: [1, 2, 4, 8, 16], log: true },
  mix: (qps) => mix('cx6-100g', ['B:name=single,size=1MiB', `B:name=multi,size=1MiB,qps=${qps}`]),
  panels: [
    { title: 'Bandwidth of B_App_single', unit: 'Gbps', measure: (run) => gbps(run, 'single') },
    { title: 'Bandwidth of B_App_multi', unit: 'Gbps', measure: (run) => gbps(run, 'multi') },
  ],
} satisfies Figure<number>;
