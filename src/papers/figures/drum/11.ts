import { mmps } from '../../../mix/metrics.ts';
import { cached, others } from '../../drum/connections.ts';
import type { Figure } from '../../engine/figure.ts';
import { stated } from '../../engine/panels.ts';

const MESSAGES = 2 ** 20 / 32;

export default {
  title: 'Time for 1 MB in messages of 32 B, by the number of connections',
  source: 'DRUM V, test case 2, fig. 11',
  note: "From the message rate. The paper's values are of the 80th percentile; at 100 connections DRUM is 3.75 times as fast as RAW and 1.4 times as fast as SHARE. Here a message takes as long as in fig. 10, and they do not overlap: three times as long as in the paper, which has 1.6 us each.",
  x: { title: 'connections', values: [20, 50, 100] },
  mix: (connections) => cached(['D:name=fg,size=32', others(connections)]),
  panels: [
    {
      title: 'Time for 1 MB',
      unit: 'ms',
      measure: (run) => MESSAGES / mmps(run, 'fg') / 1e3,
      paper: [
        ...stated('none', 'V-B, 80th percentile', [[20, 53.1]]),
        ...stated('SHARE', 'V-B, 80th percentile', [[20, 82.8]]),
        ...stated('drum', 'V-B, 80th percentile', [[20, 62.9]]),
      ],
    },
  ],
} satisfies Figure<number>;
