import type { Figure } from '../../engine/figure.ts';
import { bandwidth, rate } from '../../engine/panels.ts';
import { B, NETWORK, type Network, on, T } from '../../justitia/kinds.ts';

export default {
  title: 'Isolation of a throughput application from a bandwidth application',
  source: 'Justitia 6.1, fig. 15: under Justitia each has half of what it has alone',
  x: NETWORK,
  mix: on(B, T),
  series: { 'M alone': on(T), 'B alone': on(B) },
  panels: [rate<Network>('M'), bandwidth<Network>('B')],
} satisfies Figure<Network>;
