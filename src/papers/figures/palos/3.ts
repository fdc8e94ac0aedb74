import { toAlone } from '../../engine/beside.ts';
import type { Figure } from '../../engine/figure.ts';
import { average, stated } from '../../engine/panels.ts';
import { flows, large, single } from '../../palos/flows.ts';

export default {
  title: 'One small flow and a growing number of large ones',
  source: 'Palos II-B, fig. 3',
  note: 'At MTU 4096. The pause of 1 us keeps the small flow from locking to whole rounds of the large ones.',
  x: { title: 'large flows', values: [1, 2, 4, 8, 16, 24] },
  mix: (count) => flows([large(count), single(64)], { duration: '20ms' }),
  policies: ['none'],
  panels: [toAlone(average('small'), () => flows([single(64)]), stated('none', 'II-B', [[24, 7.8]]))],
} satisfies Figure<number>;
