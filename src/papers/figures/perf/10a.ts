import { mmps } from '../../../mix/metrics.ts';
import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { rate } from '../../engine/panels.ts';
import { QPS } from '../../perf/multi.ts';

const SINGLE = 'M:name=single,size=16';
const LONG = { duration: '10ms', warmup: '2ms' };

export default {
  title: 'QP-level isolation: M_App_single beside M_App_multi',
  source: 'PeRF 5.2.3, fig. 10(a): up to 35 % more for M_App_single than bare',
  note: 'Here M_App_single loses half bare, so that it has 90 % more under perf.',
  x: { title: 'queue pairs of M_App_multi', values: QPS },
  mix: (qps) => mix('cx6-100g', [`M:name=multi,size=16,qps=${qps}`, SINGLE], LONG),
  panels: [
    rate('single', { title: 'Message rate of M_App_single' }),
    {
      title: 'The same to that alone and bare',
      unit: 'x',
      base: () => mix('cx6-100g', SINGLE),
      measure: (run, _x, base) => mmps(run, 'single') / mmps(base, 'single'),
    },
    rate('multi', { title: 'Message rate of M_App_multi' }),
  ],
} satisfies Figure<number>;
