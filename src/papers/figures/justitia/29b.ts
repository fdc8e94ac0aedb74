import { toAlone } from '../../engine/beside.ts';
import type { Figure } from '../../engine/figure.ts';
import { rate, stated } from '../../engine/panels.ts';
import { onInfiniBand, T } from '../../justitia/kinds.ts';

export default {
  title: 'A throughput application beside a growing number of bandwidth applications',
  source: 'Justitia appendix B.1, fig. 29(b): it loses 90 % beside 16',
  x: { title: 'bandwidth applications', values: [1, 2, 4, 8, 16] },
  mix: (count) => onInfiniBand([`B:size=1MB,count=${count}`, T], { duration: '40ms', warmup: '2ms' }),
  policies: ['none'],
  panels: [rate('M'), toAlone(rate('M'), () => onInfiniBand([T]), stated('none', 'B.1', [[16, 0.1]]))],
} satisfies Figure<number>;
