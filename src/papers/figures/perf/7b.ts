import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, rate } from '../../engine/panels.ts';

export default {
  title: 'B_App and M_App: strict priority and ETS of the hardware, and policies',
  source: 'PeRF 5.2.1, fig. 7(b): strict priority starves B_App; PeRF is similar to ETS 16:1',
  note: 'Here M has more under PeRF than with ETS 16:1, and B less.',
  x: { title: '', values: ['B and M'] },
  mix: () => mix('cx6-100g', ['B:size=1MiB', 'M:size=16']),
  series: {
    'strict priority': () => ({
      set: { scheduler: 'sp' },
      apps: ['B:size=1MiB,class=1', 'M:size=16,class=0'],
    }),
    'ETS 16:1': () => ({
      set: { scheduler: 'ets', etsWeights: '16,1' },
      apps: ['B:size=1MiB,class=0', 'M:size=16,class=1'],
    }),
  },
  panels: [bandwidth('B'), rate('M')],
} satisfies Figure<string>;
