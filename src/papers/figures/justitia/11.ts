import type { Figure } from '../../engine/figure.ts';
import { bandwidth, median, p99 } from '../../engine/panels.ts';
import { B, L, NETWORK, type Network, on } from '../../justitia/kinds.ts';

export default {
  title: 'Isolation of a latency application from a bandwidth application',
  source: 'Justitia 6.1, fig. 11: under Justitia the bandwidth application gets half of the capacity',
  note: 'iWARP is not modelled.',
  x: NETWORK,
  mix: on(B, L),
  series: { alone: on(L) },
  panels: [median<Network>('D'), p99<Network>('D'), bandwidth<Network>('B')],
} satisfies Figure<Network>;
