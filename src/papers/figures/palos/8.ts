import { toAlone } from '../../engine/beside.ts';
import type { Figure } from '../../engine/figure.ts';
import { average, bandwidth, stated } from '../../engine/panels.ts';
import { flows, large, single } from '../../palos/flows.ts';

export default {
  title: 'Isolation of a latency-sensitive flow from a number of large ones in a group',
  source: 'Palos V-A, fig. 8',
  note: 'At MTU 4096, with the 64 B of the caption; the text has 16 B.',
  x: { title: 'large flows', values: [1, 2, 4, 8, 16] },
  mix: (count) => flows([`${large(count)},group=one`, `${single(64)},group=one`], { duration: '20ms' }),
  panels: [
    toAlone(average('small'), () => flows([single(64)]), [
      ...stated('none', 'V-A', [[16, 5]]),
      ...stated('palos', 'V-A', [[16, 1.79]]),
    ]),
    bandwidth('large', { title: 'Bandwidth of all large flows' }),
  ],
} satisfies Figure<number>;
