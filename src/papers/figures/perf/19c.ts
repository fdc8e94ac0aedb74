import type { Figure } from '../../engine/figure.ts';
import { bandwidth } from '../../engine/panels.ts';
import { bothWays, WAY, type Way } from '../../perf/both-ways.ts';

export default {
  title: 'Inbound READ against outbound WRITE: B_App_single and B_App_multi of 15 queue pairs',
  source: 'PeRF appendix C, fig. 19(c) and (d)',
  note: 'Under perf:paper READs of several queue pairs do not take turns: a turn is over when they are asked for.',
  also: ['19d'],
  x: WAY,
  mix: bothWays('B:name=multi,size=1MiB,qps=15'),
  panels: [
    bandwidth('B', { title: 'Bandwidth of B_App_single' }),
    bandwidth('multi', { title: 'Bandwidth of B_App_multi' }),
  ],
} satisfies Figure<Way>;
