import type { Figure } from '../../engine/figure.ts';
import { bandwidth, latencies } from '../../engine/panels.ts';
import { bothWays, WAY, type Way } from '../../perf/both-ways.ts';

export default {
  title: 'Inbound READ against outbound WRITE: B_App_single and D_App',
  source: 'PeRF appendix C, fig. 19: D_App at least 65 % less on average, B_App_single loses 5 %',
  note: 'Here D has 73 % less under perf where B reads, and 56 % less where B writes.',
  x: WAY,
  mix: bothWays('D:size=16,think=5us'),
  panels: [...latencies<Way>('D'), bandwidth('B')],
} satisfies Figure<Way>;
