import type { Figure } from '../../engine/figure.ts';
import { bandwidth, rate } from '../../engine/panels.ts';
import { B, T, withDcqcn } from '../../justitia/kinds.ts';

export default {
  title: 'With DCQCN: a throughput application beside a bandwidth application',
  source: 'Justitia 6.3, fig. 20: Justitia improves throughput by 2.6 times',
  note: 'ConnectX-4 at 10 Gbps stands for ConnectX-4 Lx.',
  x: { title: '', values: ['10 Gbps'] },
  mix: () => withDcqcn(B, T),
  series: { 'M alone': () => withDcqcn(T), 'B alone': () => withDcqcn(B) },
  panels: [rate('M'), bandwidth('B')],
} satisfies Figure<string>;
