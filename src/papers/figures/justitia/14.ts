import type { Figure } from '../../engine/figure.ts';
import { median, p99, rate } from '../../engine/panels.ts';
import { L, NETWORK, type Network, on, T } from '../../justitia/kinds.ts';

export default {
  title: 'A latency application beside a throughput application',
  source: 'Justitia 6.1, fig. 14: negligible overhead',
  x: NETWORK,
  mix: on(L, T),
  series: { 'D alone': on(L), 'M alone': on(T) },
  panels: [median<Network>('D'), p99<Network>('D'), rate<Network>('M')],
} satisfies Figure<Network>;
