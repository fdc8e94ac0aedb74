import { onTestbed } from '../../drum/connections.ts';
import type { Figure } from '../../engine/figure.ts';
import { rate } from '../../engine/panels.ts';

const app = (batch: number, pause: number) => `M:size=1KB,batch=${batch},depth=${batch},think=${pause}us`;
const series = (batch: number) => (perUs: number) => ({ apps: [app(batch, 1 / perUs)] });

export default {
  title: 'An application that posts a batch after each polled completion, by how often it polls',
  source: 'DRUM II-C, fig. 2(b): throughput grows with the polling rate',
  note: 'A poll is the end of a pause, the same on average.',
  x: { title: 'polls in a microsecond', values: [0.05, 0.1, 0.2, 0.5, 1], log: true },
  mix: (perUs) => onTestbed([app(1, 1 / perUs)], { duration: '20ms' }),
  policies: [],
  series: { 'batches of 1': series(1), 'batches of 5': series(5), 'batches of 10': series(10) },
  panels: [rate('M')],
} satisfies Figure<number>;
