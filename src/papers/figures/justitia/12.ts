import type { Figure } from '../../engine/figure.ts';
import { bandwidth, median, p99 } from '../../engine/panels.ts';
import { L, NETWORK, type Network, on } from '../../justitia/kinds.ts';

export default {
  title: 'A latency application beside a bandwidth application of 4 queue pairs',
  source: 'Justitia 6.1, fig. 12: a target of 10 us is met, and utilisation is as high as it can be',
  x: NETWORK,
  mix: on('B:size=1MB,qps=4', L),
  series: { alone: on(L) },
  panels: [median<Network>('D'), p99<Network>('D'), bandwidth<Network>('B')],
} satisfies Figure<Network>;
