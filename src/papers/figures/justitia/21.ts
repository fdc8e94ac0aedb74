import type { Figure } from '../../engine/figure.ts';
import { median, p99, rate } from '../../engine/panels.ts';
import { L, T, withDcqcn } from '../../justitia/kinds.ts';

export default {
  title: 'With DCQCN: a latency application beside a throughput application',
  source: 'Justitia 6.3, fig. 21',
  note: 'The text has no caption of this figure: it is the pair that figs. 19 and 20 leave. ConnectX-4 at 10 Gbps stands for ConnectX-4 Lx.',
  x: { title: '', values: ['10 Gbps'] },
  mix: () => withDcqcn(L, T),
  series: { 'D alone': () => withDcqcn(L), 'M alone': () => withDcqcn(T) },
  panels: [median('D'), p99('D'), rate('M')],
} satisfies Figure<string>;
