import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, latencies } from '../../engine/panels.ts';

const OPERATIONS = ['SEND', 'READ'] as const;
const op = (operation: string) => `op=${operation.toLowerCase()}`;

export default {
  title: 'Other operations: B_App and D_App',
  source:
    'PeRF 5.2.5, fig. 12(a): D_App -75 % (SEND) and -67 % (READ) on average, B_App loses 5 %; bandwidth as in fig. 2(b)',
  note: 'Here D has 63 % (SEND) and 65 % (READ) less under perf.',
  x: { title: '', values: OPERATIONS },
  mix: (x) =>
    mix('cx6-100g', [`B:size=1MiB,${op(x)}`, `D:size=16,${op(x)},think=5us`], {
      duration: '20ms',
      warmup: '2ms',
    }),
  panels: [...latencies<(typeof OPERATIONS)[number]>('D'), bandwidth('B')],
} satisfies Figure<(typeof OPERATIONS)[number]>;
