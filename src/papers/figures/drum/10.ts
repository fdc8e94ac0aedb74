import { cached, foreground, others } from '../../drum/connections.ts';
import type { Figure } from '../../engine/figure.ts';
import { average, p99, stated } from '../../engine/panels.ts';

export default {
  title: '32 B messages by the number of connections',
  source: 'DRUM V, test case 1, fig. 10',
  note: "The paper's values are of the 80th percentile, with a background it does not describe: batches of 20 messages of 1 KB here.",
  x: { title: 'connections', values: [20, 50, 100] },
  mix: (connections) => cached([foreground('32'), others(connections)]),
  panels: [
    average('fg', {
      paper: [
        ...stated('none', 'V-B, 80th percentile', [
          [20, 7.1],
          [50, 26.5],
          [100, 90.4],
        ]),
        ...stated('SHARE', 'V-B, 80th percentile', [[20, 7.2]]),
        ...stated('drum', 'V-B, 80th percentile', [
          [20, 8.8],
          [50, 14.5],
          [100, 24],
        ]),
      ],
    }),
    p99('fg'),
  ],
} satisfies Figure<number>;
