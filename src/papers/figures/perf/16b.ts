import { gbps } from '../../../mix/metrics.ts';
import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { average, p99, rate } from '../../engine/panels.ts';

const APPS = [
  'B:name=crail,size=1MiB,to=1',
  'M:name=herd,size=32-64,batch=8,depth=32,op=send,to=1',
  'D:name=rping,size=256,op=send,think=5us,to=1',
  'B:name=background,size=1MiB,qps=16,to=2',
];

export default {
  title: 'The same three, and 16 queue pairs of 1 MB messages to another node',
  source: 'PeRF 5.3, fig. 16(b); PeRF_S has a 0_WAIT_UNIT of 900',
  note: 'Stand-ins of the same sizes, not these programs.',
  x: { title: '', values: ['all four'] },
  mix: () => mix('cx6-100g', APPS, { hosts: 3, duration: '20ms', warmup: '2ms' }),
  series: { 'perf:paper, 0_WAIT_UNIT 900': () => ({ policy: 'perf:paper,zeroWaitUnitBytes=900' }) },
  panels: [
    {
      title: 'Bandwidth of Crail and the background',
      unit: 'Gbps',
      measure: (run) => gbps(run, 'crail') + gbps(run, 'background'),
    },
    rate('herd', { title: 'Message rate of HERD' }),
    average('rping'),
    p99('rping'),
  ],
} satisfies Figure<string>;
