import type { Figure } from '../../engine/figure.ts';
import { limitedFlows } from '../../tassel/limits.ts';

export default {
  ...limitedFlows(
    [
      [1, 900],
      [10, 80],
      [100, 15],
      [1000, 4],
      [10000, 1],
    ],
    1,
  ),
  title: '1,000 queue pairs with rate limits, 17 Gbps together',
  source: 'Tassel 4, fig. 8(a): accurate',
} satisfies Figure<number>;
