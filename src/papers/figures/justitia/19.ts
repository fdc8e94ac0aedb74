import { toAlone } from '../../engine/beside.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, median, p99 } from '../../engine/panels.ts';
import { B, L, withDcqcn } from '../../justitia/kinds.ts';

const alone = () => withDcqcn(L);

export default {
  title: 'With DCQCN: a latency application beside a bandwidth application',
  source: 'Justitia 6.3, fig. 19: Justitia improves latencies by up to 8.6 times',
  note: 'ConnectX-4 at 10 Gbps stands for ConnectX-4 Lx.',
  x: { title: '', values: ['10 Gbps'] },
  mix: () => withDcqcn(B, L),
  series: { alone },
  panels: [median('D'), p99('D'), toAlone(p99('D'), alone), bandwidth('B')],
} satisfies Figure<string>;
