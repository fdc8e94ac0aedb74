import { mmps } from '../../../mix/metrics.ts';
import { cached } from '../../drum/connections.ts';
import type { Figure } from '../../engine/figure.ts';
import { average, stated } from '../../engine/panels.ts';

export default {
  title: '20 connections with one message at a time, by its size',
  source: 'DRUM V, test case 2, fig. 12: above 500 KB RAW has 10.3 to 15.6 Kops and DRUM 14 to 25.6',
  note: 'More than 10 Kops of 500 KB do not fit into 40 Gbps: the model cannot show those values.',
  x: { title: 'size of a message', values: [100, 1000, 5000, 50e3, 500e3, 1e6], log: true, bytes: true },
  mix: (bytes) => cached([`B:size=${bytes},depth=1,qps=20`]),
  panels: [
    average('B', { log: true }),
    {
      title: 'Operations of all',
      unit: 'Kops',
      log: true,
      measure: (run) => mmps(run, 'B') * 1e3,
      paper: [
        ...stated('none', 'V-B', [
          [500e3, [10.3, 15.6]],
          [1e6, [10.3, 15.6]],
        ]),
        ...stated('drum', 'V-B', [
          [500e3, [14, 25.6]],
          [1e6, [14, 25.6]],
        ]),
      ],
    },
  ],
} satisfies Figure<number>;
