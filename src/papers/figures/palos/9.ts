import type { Figure } from '../../engine/figure.ts';
import { bandwidth, rate } from '../../engine/panels.ts';
import { flows, large, small } from '../../palos/flows.ts';

export default {
  title: '16 small flows in group A, and a number of large ones in group B',
  source:
    'Palos V-B, fig. 9: beside 8 large flows A falls to 10 % of its rate beside one, and B rises to 155 %',
  note: 'Virtual lanes are queues of the hardware with equal weights. The paper draws both to what they are beside one large flow: here A falls to 19 % bare, and B rises to 150 %.',
  x: { title: 'large flows', values: [1, 2, 4, 8] },
  mix: (count) => flows([`${large(count)},group=b`, `${small(64)},group=a`]),
  series: {
    'virtual lanes': (count) => ({
      set: { scheduler: 'ets', etsWeights: '1,1' },
      apps: [`${large(count)},group=b,class=1`, `${small(64)},group=a,class=0`],
    }),
  },
  panels: [
    rate('small', { title: 'Message rate of group A' }),
    bandwidth('large', { title: 'Bandwidth of group B' }),
  ],
} satisfies Figure<number>;
