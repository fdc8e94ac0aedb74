import type { Figure } from '../../engine/figure.ts';
import { median, p99, rate } from '../../engine/panels.ts';
import { L, NETWORK, type Network, on, T } from '../../justitia/kinds.ts';

export default {
  title: 'A latency application beside a throughput application, bare',
  source: 'Justitia appendix B, fig. 28: neither is noticeably affected, except on iWARP',
  note: 'iWARP is not modelled.',
  x: NETWORK,
  mix: on(L, T),
  policies: ['none'],
  series: { 'D alone': on(L), 'M alone': on(T) },
  panels: [median<Network>('D'), p99<Network>('D'), rate<Network>('M')],
} satisfies Figure<Network>;
