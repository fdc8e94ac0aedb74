import { gbps } from '../../../mix/metrics.ts';
import { onTestbed } from '../../drum/connections.ts';
import type { Figure } from '../../engine/figure.ts';

export default {
  title: 'Time for 1 GB in messages of 1 MB, beside batches of requests of 1 KB to 10 MB',
  source: 'DRUM V, test case 2, fig. 9: under DRUM it does not depend on the background',
  note: 'From the bandwidth of the transfer; the paper draws distributions over 1,000 transfers. Bare, too, nothing depends on it here: the background is one queue pair, which has one turn.',
  x: { title: 'requests of a batch', values: [20, 40, 60, 80, 100] },
  mix: (batch) =>
    onTestbed(['B:name=fg,size=1MB,depth=1', `B:name=bg,size=1KB-10MB,batch=${batch},depth=${batch}`], {
      duration: '40ms',
    }),
  panels: [{ title: 'Time for 1 GB', unit: 's', measure: (run) => 8.589934592 / gbps(run, 'fg') }],
} satisfies Figure<number>;
