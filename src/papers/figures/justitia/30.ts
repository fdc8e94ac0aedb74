import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, median, p99 } from '../../engine/panels.ts';
import { L } from '../../justitia/kinds.ts';

const LONG = { duration: '20ms' };

export default {
  title: 'At 100 Gbps: a latency application beside 5 MB messages',
  source: 'Justitia appendix C.1, fig. 30',
  note: 'ConnectX-5 stands for ConnectX-4.',
  x: { title: '', values: ['100 Gbps'] },
  mix: () => mix('cx5-100g', ['B:size=5MB', L], LONG),
  series: { alone: () => mix('cx5-100g', L, LONG) },
  panels: [median('D'), p99('D'), bandwidth('B')],
} satisfies Figure<string>;
