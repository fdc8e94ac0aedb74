import type { Figure } from '../figure.ts';
import { L, NETWORK, type Network, on, T } from '../kinds.ts';
import { median, p99, rate } from '../panels.ts';

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
