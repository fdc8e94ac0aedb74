import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { latencies, rate } from '../../engine/panels.ts';

export default {
  title: 'D_App beside M_App_multi',
  source: 'PeRF 2.3.2, fig. 3(c), and 5.2.3, fig. 10(b): under PeRF up to 22 % less at 99 %, 5 % on average',
  x: { title: 'queue pairs of M_App_multi', values: [1, 2, 4, 6, 8, 9, 12, 16] },
  mix: (qps) => mix('cx6-100g', ['D:size=16,think=1us', `M:name=multi,size=16,qps=${qps}`]),
  panels: [...latencies<number>('D'), rate('multi', { title: 'Message rate of M_App_multi' })],
} satisfies Figure<number>;
