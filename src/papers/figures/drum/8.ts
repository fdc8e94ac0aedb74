import { batches, foreground, onTestbed } from '../../drum/connections.ts';
import type { Figure } from '../../engine/figure.ts';
import { average, p99, stated } from '../../engine/panels.ts';

const BATCHES = [20, 40, 60, 80, 100];

export default {
  title: '32 B messages beside batches of requests',
  source: 'DRUM V, test case 1, fig. 8: the 80th percentile stays within 20 us under DRUM',
  note: 'The paper draws distributions. Its background is not described: 1 KB messages on one queue pair here, which has one turn, however long its queue: bare, they are within 20 us, too.',
  x: { title: 'requests of a batch', values: BATCHES },
  mix: (batch) => onTestbed([foreground('32'), batches('1KB', batch)]),
  panels: [
    average('fg', {
      paper: stated(
        'drum',
        'V-B, 80th percentile',
        BATCHES.map((batch) => [batch, [0, 20]]),
      ),
    }),
    p99('fg'),
  ],
} satisfies Figure<number>;
