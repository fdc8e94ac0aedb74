import { batches, foreground, onTestbed } from '../../drum/connections.ts';
import type { Figure } from '../../engine/figure.ts';
import { average, p99, stated } from '../../engine/panels.ts';

export default {
  title: '1 KB messages beside batches of requests',
  source: 'DRUM II-A, fig. 2(a)',
  note: "The paper's values are of the 80th percentile; 74.3 is 78 in the text. Its background is not described: 1 KB messages on one queue pair here, which has one turn, however long its queue: the model shows a small part of it.",
  x: { title: 'requests of a batch', values: [20, 40, 60, 80, 100] },
  mix: (batch) => onTestbed([foreground('1KB'), batches('1KB', batch)]),
  panels: [
    average('fg', {
      paper: stated('none', 'II-A, 80th percentile', [
        [20, 19.8],
        [100, 74.3],
      ]),
    }),
    p99('fg'),
  ],
} satisfies Figure<number>;
