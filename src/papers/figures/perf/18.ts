import { gbps } from '../../../mix/metrics.ts';
import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth } from '../../engine/panels.ts';

const apps = (depth: number) => [
  `B:name=short,size=1MiB,depth=${depth}`,
  `B:name=long,size=1GiB,depth=${depth}`,
];

export default {
  title: 'B_Apps with messages of 1 MB and of 1 GB',
  source:
    'PeRF appendix B, fig. 18: (a) bare, the shorter ones get less at a depth of one; (b) PeRF mends it',
  note: 'The paper does not say how much less. Here it is what a gap between completion and next packet costs.',
  x: { title: 'requests outstanding (SQ size)', values: [1, 2, 3, 4, 5] },
  mix: (depth) => mix('cx6-100g', apps(depth), { duration: '22ms', warmup: '2ms' }),
  panels: [
    bandwidth('short', { title: 'Bandwidth with 1 MB' }),
    bandwidth('long', { title: 'Bandwidth with 1 GB' }),
    { title: '1 MB to 1 GB', unit: 'x', measure: (run) => gbps(run, 'short') / gbps(run, 'long') },
  ],
} satisfies Figure<number>;
