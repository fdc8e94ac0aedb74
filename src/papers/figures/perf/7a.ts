import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, latencies } from '../../engine/panels.ts';

const APPS = ['B:size=1MiB', 'D:size=16,think=1us'];

export default {
  title: 'B_App and D_App: strict priority of the hardware, and policies',
  source: 'PeRF 5.2.1, fig. 7(a): PeRF is comparable with strict priority',
  x: { title: '', values: ['B and D'] },
  mix: () => mix('cx6-100g', APPS, { duration: '10ms', warmup: '2ms' }),
  series: {
    'strict priority': () => ({
      set: { scheduler: 'sp' },
      apps: ['B:size=1MiB,class=1', 'D:size=16,think=1us,class=0'],
    }),
  },
  panels: [bandwidth('B'), ...latencies<string>('D')],
} satisfies Figure<string>;
