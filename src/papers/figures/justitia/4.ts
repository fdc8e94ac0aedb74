import { toAlone } from '../../engine/beside.ts';
import type { Figure } from '../../engine/figure.ts';
import { rate, stated } from '../../engine/panels.ts';
import { B, IB, NETWORK, type Network, on, ROCE, T } from '../../justitia/kinds.ts';

const alone = on(T);

export default {
  title: 'A throughput application beside a bandwidth application',
  source: 'Justitia 3.1.1, fig. 4: 2.85 times less or worse',
  note: 'iWARP is not modelled.',
  x: NETWORK,
  mix: on(B, T),
  policies: ['none'],
  series: { alone: (x) => alone(x) },
  panels: [
    rate('M'),
    toAlone(
      rate('M'),
      alone,
      stated<Network>('none', '3.1.1', [
        [IB, [0, 1 / 2.85]],
        [ROCE, [0, 1 / 2.85]],
      ]),
    ),
  ],
} satisfies Figure<Network>;
