import { toAlone } from '../../engine/beside.ts';
import type { Figure } from '../../engine/figure.ts';
import { median, p99, stated } from '../../engine/panels.ts';
import { onInfiniBand } from '../../justitia/kinds.ts';

const EIGHT_B = ['1MB', '10MB', '100MB', '1GB'].map((size) => `B:name=b${size},size=${size},count=2`);
const alone = () => onInfiniBand(['D:size=16,think=1us']);
const X = '8 and 8';

export default {
  title: '8 latency applications and 8 bandwidth applications of 1 MB to 1 GB',
  source:
    'Justitia 6.4, fig. 23: Justitia improves the median 26.5 times and the tail 12.7 times, and guarantees 8/9',
  x: { title: '', values: [X] },
  mix: () => onInfiniBand([...EIGHT_B, 'D:size=16,think=1us,count=8'], { duration: '60ms', warmup: '2ms' }),
  series: { 'D alone': alone },
  panels: [
    median('D', { log: true, paper: stated('D alone', '6.4', [[X, 1.3]]) }),
    p99('D', { log: true, paper: stated('D alone', '6.4', [[X, 1.4]]) }),
    toAlone(median('D', { log: true }), alone, [
      ...stated('none', '6.4', [[X, 71.4]]),
      ...stated('justitia', '6.4: 71.4 / 26.5', [[X, 71.4 / 26.5]]),
    ]),
    toAlone(p99('D', { log: true }), alone, [
      ...stated('none', '6.4', [[X, 79.8]]),
      ...stated('justitia', '6.4: 79.8 / 12.7', [[X, 79.8 / 12.7]]),
    ]),
    {
      title: 'Bandwidth of all bandwidth applications',
      unit: 'Gbps',
      measure: ({ apps }) =>
        apps.some(({ kind }) => kind === 'B')
          ? apps.reduce((sum, { kind, throughputGbps }) => sum + (kind === 'B' ? throughputGbps : 0), 0)
          : Number.NaN,
    },
  ],
} satisfies Figure<string>;
