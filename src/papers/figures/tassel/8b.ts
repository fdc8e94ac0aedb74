import type { Figure } from '../../engine/figure.ts';
import { limitedFlows } from '../../tassel/limits.ts';

export default {
  ...limitedFlows(
    [
      [1, 899],
      [10, 60],
      [100, 15],
      [1000, 7],
      [10000, 19],
    ],
    0.5,
  ),
  title: '1,000 queue pairs with rate limits that are twice the link together',
  source: 'Tassel 4, fig. 8(b): each falls to its limit over 2',
} satisfies Figure<number>;
