import { avgUs, gbps, p99Us } from '../../../mix/metrics.ts';
import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';

const APPS = { 'D alone': ['D:size=16,think=1us'], 'D beside B': ['B:size=1MiB', 'D:size=16,think=1us'] };

export default {
  title: 'D_App beside B_App',
  source: 'PeRF 2.3.1, fig. 2(b)',
  x: { title: '', values: ['D alone', 'D beside B'] },
  mix: (x) => mix('cx6-100g', APPS[x]),
  panels: [
    { title: 'Average latency of D', unit: 'us', measure: (run) => avgUs(run, 'D') },
    { title: '99 % latency of D', unit: 'us', measure: (run) => p99Us(run, 'D') },
    {
      title: 'Bandwidth of B',
      unit: 'Gbps',
      measure: (run, x) => (x === 'D alone' ? Number.NaN : gbps(run, 'B')),
      paper: [{ series: 'none', x: 'D beside B', value: 97.94, from: '2.3.1' }],
    },
  ],
} satisfies Figure<keyof typeof APPS>;
