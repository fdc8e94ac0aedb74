/** Small requests, like those of DARE, alongside 8 parallel writes, like those of Crail. Justitia, figs. 6 and 16. */
import type { Figure } from '../engine/figure.ts';
import { bandwidth, median, p99, stated, toAlone } from '../engine/panels.ts';
import { onInfiniBand } from './kinds.ts';

const DARE = 'D:name=dare,size=8-1024,think=1us';
const CRAIL = 'B:name=crail,size=1MB,qps=8';
const alone = () => onInfiniBand([DARE]);
const X = 'DARE and Crail';

export const dareAndCrail = {
  title: 'Small requests, like those of DARE, alongside 8 parallel 1 MB writes, like those of Crail',
  note: 'A stand-in. A device on which 16 competitors increase latency 139 times cannot keep the effect of 8 down to 4.6 times.',
  x: { title: '', values: [X] },
  mix: () => onInfiniBand([CRAIL, DARE], { duration: '40ms' }),
  series: { 'DARE alone': alone },
  panels: [
    median('dare', { title: 'Median latency of DARE', log: true }),
    p99('dare', { title: '99th-percentile latency of DARE', log: true }),
    toAlone(
      p99('dare', { title: '99th-percentile latency of DARE', log: true }),
      alone,
      stated('none', '3.2', [[X, 4.6]]),
    ),
    bandwidth('crail', {
      title: 'Bandwidth of Crail',
      paper: [
        ...stated('none', '3.2', [[X, 51.1]]),
        ...stated('justitia', '6.1: 81 % of 51.1', [[X, 0.81 * 51.1]]),
      ],
    }),
  ],
} satisfies Omit<Figure<string>, 'number' | 'source'>;
