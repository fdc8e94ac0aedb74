import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { latencies, rate } from '../../engine/panels.ts';
import { QPS } from '../../perf/multi.ts';

const LONG = { duration: '10ms', warmup: '2ms' };

export default {
  title: 'QP-level isolation: D_App_single beside M_App_multi',
  source: 'PeRF 5.2.3, fig. 10(b): up to 22 % less at 99 % than bare, 5 % on average',
  note: 'Here D waits four times as long bare, from 9 queue pairs on, and not at all under perf.',
  x: { title: 'queue pairs of M_App_multi', values: QPS },
  mix: (qps) => mix('cx6-100g', [`M:name=multi,size=16,qps=${qps}`, 'D:size=16,think=1us'], LONG),
  panels: [...latencies<number>('D'), rate('multi', { title: 'Message rate of M_App_multi' })],
} satisfies Figure<number>;
