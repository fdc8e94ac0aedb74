import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { average, bandwidth, p99, stated } from '../../engine/panels.ts';

const RELAXED = 'Justitia, 15 us';

export default {
  title: 'Message-level isolation: B_App and D_App',
  source:
    'PeRF 5.2.2, fig. 8(a): Justitia halves B_App; relaxed to 15 us it has about 86 Gbps and 1.5 us (5.1)',
  x: { title: '', values: ['B and D'] },
  mix: () => mix('cx6-100g', ['B:size=1MiB', 'D:size=16,think=1us']),
  panels: [
    bandwidth('B', {
      paper: [...stated('none', '2.3.1', [['B and D', 97.94]]), ...stated(RELAXED, '5.1', [['B and D', 86]])],
    }),
    average('D', { paper: stated(RELAXED, '5.1', [['B and D', 1.5]]) }),
    p99('D'),
  ],
} satisfies Figure<string>;
