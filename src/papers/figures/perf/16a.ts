import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { average, bandwidth, p99, rate } from '../../engine/panels.ts';

const APPS = [
  'B:name=crail,size=1MiB',
  'M:name=herd,size=32-64,batch=8,depth=32,op=send',
  'D:name=rping,size=256,op=send,think=5us',
];

export default {
  title: 'File transfers (as of Crail), a key-value store (as of HERD) and rping',
  source: 'PeRF 5.3, fig. 16(a): Crail has 55 % more than under Justitia, rping loses less than 1 us',
  note: 'Stand-ins of the same sizes, not these programs. Under perf rping loses 0.7 us, under perf:paper 3 us.',
  x: { title: '', values: ['all three'] },
  mix: () => mix('cx6-100g', APPS, { duration: '20ms', warmup: '2ms' }),
  series: { 'rping alone': () => ({ apps: APPS.slice(2) }) },
  panels: [
    bandwidth('crail', { title: 'Bandwidth of Crail' }),
    rate('herd', { title: 'Message rate of HERD' }),
    average('rping'),
    p99('rping'),
  ],
} satisfies Figure<string>;
