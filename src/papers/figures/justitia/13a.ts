import { gbps } from '../../../mix/metrics.ts';
import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth } from '../../engine/panels.ts';
import { IB, NETWORK, type Network } from '../../justitia/kinds.ts';

const APPS = ['B:name=short,size=1MB,depth=1', 'B:name=long,size=1GB,depth=1'];

export default {
  title: 'Shares of bandwidth applications: messages of 1 MB and of 1 GB',
  source: 'Justitia 6.1, fig. 13(a): equal under Justitia, at a cost below 6 % (InfiniBand) and 2 % (RoCEv2)',
  note: 'With one request outstanding.',
  x: NETWORK,
  mix: (x) => mix(x === IB ? 'cx3-56g' : 'cx4-40g', APPS, { duration: '22ms', warmup: '2ms' }),
  panels: [
    bandwidth('short', { title: 'Bandwidth with 1 MB' }),
    bandwidth('long', { title: 'Bandwidth with 1 GB' }),
    { title: 'Bandwidth of both', unit: 'Gbps', measure: (run) => gbps(run, 'short') + gbps(run, 'long') },
  ],
} satisfies Figure<Network>;
