import { toAlone } from '../../engine/beside.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, rate, stated } from '../../engine/panels.ts';
import { flows, large, small } from '../../palos/flows.ts';

export default {
  title: 'One large flow and 16 small ones',
  source: 'Palos II-B, fig. 2',
  note: 'At MTU 4096; the paper has 1500.',
  x: {
    title: 'size of a small message',
    values: [64, 128, 256, 512, 1024, 2048, 4096],
    log: true,
    bytes: true,
  },
  mix: (bytes) => flows([large(), small(bytes)]),
  policies: ['none'],
  panels: [
    toAlone(rate('small'), (bytes) => flows([small(bytes)]), stated('none', 'II-B', [[64, 0.45]])),
    toAlone(bandwidth('large'), () => flows([large()]), stated('none', 'II-B', [[64, 0.67]])),
  ],
} satisfies Figure<number>;
