import { gbps } from '../../../mix/metrics.ts';
import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, stated } from '../../engine/panels.ts';
import { IB, NETWORK, type Network, ROCE } from '../../justitia/kinds.ts';

const APPS = ['B:name=short,size=1MB,depth=1', 'B:name=long,size=1GB,depth=1'];

export default {
  title: 'Bandwidth applications with messages of 1 MB and of 1 GB',
  source: 'Justitia 3.1.3, fig. 5',
  note: "With one request outstanding. The paper's factors would need tens of microseconds between messages, which no published number gives: the model shows the direction only. iWARP is not modelled.",
  x: NETWORK,
  mix: (x) => mix(x === IB ? 'cx3-56g' : 'cx4-40g', APPS, { duration: '22ms', warmup: '2ms' }),
  policies: ['none'],
  panels: [
    bandwidth('short', { title: 'Bandwidth with 1 MB' }),
    bandwidth('long', { title: 'Bandwidth with 1 GB' }),
    {
      title: '1 GB to 1 MB',
      unit: 'x',
      measure: (run) => gbps(run, 'long') / gbps(run, 'short'),
      paper: stated<Network>('none', '3.1.3', [
        [IB, 1.42],
        [ROCE, 1.22],
      ]),
    },
  ],
} satisfies Figure<Network>;
