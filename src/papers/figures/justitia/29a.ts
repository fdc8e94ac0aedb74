import { toAlone } from '../../engine/beside.ts';
import type { Figure } from '../../engine/figure.ts';
import { median, p99, stated } from '../../engine/panels.ts';
import { L, onInfiniBand } from '../../justitia/kinds.ts';

const alone = () => onInfiniBand([L]);

export default {
  title: 'A latency application beside a growing number of bandwidth applications',
  source:
    'Justitia appendix B.1, fig. 29(a): the second costs 2.65 times the median and 3.79 times the tail again',
  note: 'The text has 139 times beside 16 without saying whether of the median or the tail. Beside two, the model has half of what the paper has: a burst of a unit blocks D only when all three units are taken.',
  x: { title: 'bandwidth applications', values: [1, 2, 4, 8, 16] },
  mix: (count) => onInfiniBand([`B:size=1MB,count=${count}`, L], { duration: '60ms', warmup: '2ms' }),
  policies: ['none'],
  panels: [
    toAlone(
      median('D', { log: true }),
      alone,
      stated('none', '3.1.1', [
        [1, 1.85],
        [2, 1.85 * 2.65],
        [16, 139],
      ]),
    ),
    toAlone(
      p99('D', { log: true }),
      alone,
      stated('none', '3.1.1, B.1', [
        [1, 2.23],
        [2, 2.23 * 3.79],
      ]),
    ),
  ],
} satisfies Figure<number>;
