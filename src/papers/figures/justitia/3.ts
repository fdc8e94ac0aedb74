import { toAlone } from '../../engine/beside.ts';
import type { Figure } from '../../engine/figure.ts';
import { median, p99, stated } from '../../engine/panels.ts';
import { B, IB, L, NETWORK, type Network, on, ROCE } from '../../justitia/kinds.ts';

const alone = on(L);
const factors = (ib: number, roce: number) =>
  stated<Network>('none', '3.1.1', [
    [IB, ib],
    [ROCE, roce],
  ]);

export default {
  title: 'A latency application beside a bandwidth application',
  source: 'Justitia 3.1.1, fig. 3',
  note: 'iWARP is not modelled.',
  x: NETWORK,
  mix: on(B, L),
  policies: ['none'],
  series: { alone: (x) => alone(x) },
  panels: [
    median('D', { paper: stated('alone', '6.4', [[IB, 1.3]]) }),
    p99('D', { paper: stated('alone', '6.4', [[IB, 1.4]]) }),
    toAlone(median('D'), alone, factors(1.85, 3.82)),
    toAlone(p99('D'), alone, factors(2.23, 4)),
  ],
} satisfies Figure<Network>;
