import { mmps } from '../../../mix/metrics.ts';
import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, rate, stated } from '../../engine/panels.ts';

const OPERATIONS = ['SEND', 'READ'] as const;
const apps = (operation: string) => {
  const op = `op=${operation.toLowerCase()}`;
  return [`B:size=1MiB,${op}`, `M:size=16,${op}`];
};

export default {
  title: 'Other operations: B_App and M_App',
  source: 'PeRF 5.2.5, fig. 12(b): M_App 2.7 times bare with SEND, 3 times with READ',
  note: 'The paper READs by remote control, perf:paper does not: its fixed waits pace requests, not what they want.',
  x: { title: '', values: OPERATIONS },
  mix: (x) => mix('cx6-100g', apps(x)),
  panels: [
    rate('M'),
    {
      title: 'The same to bare',
      unit: 'x',
      base: (x) => mix('cx6-100g', apps(x)),
      measure: (run, _x, bare) => mmps(run, 'M') / mmps(bare, 'M'),
      paper: stated('perf:paper', '5.2.5', [
        ['SEND', 2.7],
        ['READ', 3],
      ]),
    },
    bandwidth('B'),
  ],
} satisfies Figure<(typeof OPERATIONS)[number]>;
