import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, rate } from '../../engine/panels.ts';
import { T } from '../../justitia/kinds.ts';

const LONG = { duration: '20ms' };

export default {
  title: 'At 100 Gbps: a throughput application beside 5 MB messages',
  source: 'Justitia appendix C.1, fig. 31',
  note: 'ConnectX-5 stands for ConnectX-4.',
  x: { title: '', values: ['100 Gbps'] },
  mix: () => mix('cx5-100g', ['B:size=5MB', T], LONG),
  series: { alone: () => mix('cx5-100g', T, LONG) },
  panels: [rate('M'), bandwidth('B')],
} satisfies Figure<string>;
