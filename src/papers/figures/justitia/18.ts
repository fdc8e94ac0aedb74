import type { Figure } from '../../engine/figure.ts';
import { bandwidth, median, p99 } from '../../engine/panels.ts';
import { B, onInfiniBand } from '../../justitia/kinds.ts';

const d = (bytes: number) => `D:size=${bytes},think=1us`;

export default {
  title: 'Latency applications of various message sizes beside a bandwidth application',
  source:
    'Justitia 6.2, fig. 18: isolated over a wide range; the bandwidth application has half in all cases',
  note: 'perf takes 1 KiB and more for a bandwidth application: then B has half of the link, and D does not use the other half.',
  x: { title: 'size of a message', values: [16, 64, 256, 1024, 4096], log: true, bytes: true },
  mix: (bytes) => onInfiniBand([B, d(bytes)]),
  series: { alone: (bytes) => onInfiniBand([d(bytes)]) },
  panels: [median<number>('D'), p99<number>('D'), bandwidth<number>('B')],
} satisfies Figure<number>;
