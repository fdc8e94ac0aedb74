import type { Figure } from '../../engine/figure.ts';
import { bandwidth, median, p99, rate } from '../../engine/panels.ts';
import { B, L, on, ROCE, T } from '../../justitia/kinds.ts';

/** The latency application has one queue of the hardware, the other two share the other. */
const queues = (...apps: readonly string[]) => ({
  ...on(...apps)(ROCE),
  set: { scheduler: 'sp' },
});

export default {
  title: 'Three applications on two priority queues of the hardware',
  source: 'Justitia 6.3, fig. 22: inside a queue the throughput application is not isolated without Justitia',
  x: { title: '', values: ['all three'] },
  mix: () => queues(`${L},class=0`, `${B},class=1`, `${T},class=1`),
  series: { 'D alone': () => queues(`${L},class=0`), 'M alone': () => queues(`${T},class=1`) },
  panels: [median('D'), p99('D'), rate('M'), bandwidth('B')],
} satisfies Figure<string>;
