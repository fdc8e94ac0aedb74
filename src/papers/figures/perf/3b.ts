import { mmps } from '../../../mix/metrics.ts';
import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { rate, stated } from '../../engine/panels.ts';

const QPS = [1, 2, 4, 6, 8, 9, 12, 16];

export default {
  title: 'M_App_single beside M_App_multi',
  source: 'PeRF 2.3.2, fig. 3(b), and 5.2.3, fig. 10(a): under PeRF up to 35 % more for M_App_single',
  note: '105 Mmps are what 9 queue pairs reach in the paper; here they are 8 of M_App_multi and the single one.',
  x: { title: 'queue pairs of M_App_multi', values: QPS },
  mix: (qps) => mix('cx6-100g', ['M:name=single,size=16', `M:name=multi,size=16,qps=${qps}`]),
  panels: [
    rate('single', { title: 'Message rate of M_App_single' }),
    rate('multi', { title: 'Message rate of M_App_multi' }),
    {
      title: 'Message rate of both',
      unit: 'Mmps',
      measure: (run) => mmps(run, 'single') + mmps(run, 'multi'),
      paper: stated('none', '2.3.2', [[8, 105]]),
    },
  ],
} satisfies Figure<number>;
