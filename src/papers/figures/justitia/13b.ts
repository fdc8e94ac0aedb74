import { gbps } from '../../../mix/metrics.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth } from '../../engine/panels.ts';
import { NETWORK, type Network, on } from '../../justitia/kinds.ts';

export default {
  title: 'Shares of bandwidth applications: one queue pair and 16',
  source: 'Justitia 6.1, fig. 13(b): equal under Justitia',
  x: NETWORK,
  mix: on('B:name=one,size=1MB', 'B:name=many,size=1MB,qps=16'),
  panels: [
    bandwidth('one', { title: 'Bandwidth of one queue pair' }),
    bandwidth('many', { title: 'Bandwidth of 16 queue pairs' }),
    { title: 'Bandwidth of both', unit: 'Gbps', measure: (run) => gbps(run, 'one') + gbps(run, 'many') },
  ],
} satisfies Figure<Network>;
