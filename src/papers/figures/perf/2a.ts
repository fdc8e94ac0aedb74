import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, rate, stated } from '../../engine/panels.ts';

const OPERATIONS = ['WRITE', 'SEND', 'READ'] as const;
const op = (operation: string) => `op=${operation.toLowerCase()}`;

export default {
  title: 'M_App beside B_App',
  source: 'PeRF 2.3.1, fig. 2(a): B_App keeps 94.77 to 96.89 Gbps with all operations',
  x: { title: '', values: OPERATIONS },
  mix: (x) => mix('cx6-100g', [`B:size=1MiB,${op(x)}`, `M:size=16,${op(x)}`]),
  series: { 'M alone': (x) => ({ apps: [`M:size=16,${op(x)}`] }) },
  panels: [
    rate('M'),
    bandwidth('B', {
      paper: stated('none', '2.3.1', [
        ['WRITE', [94.77, 96.89]],
        ['SEND', [94.77, 96.89]],
        ['READ', [94.77, 96.89]],
      ]),
    }),
  ],
} satisfies Figure<(typeof OPERATIONS)[number]>;
