import { overCopies } from '../../engine/copies.ts';
import type { Figure } from '../../engine/figure.ts';
import { onInfiniBand } from '../../justitia/kinds.ts';

export default {
  title: 'Several throughput applications',
  source: 'Justitia appendix B, fig. 27: almost equal',
  x: { title: 'applications', values: [1, 2, 4, 8, 16] },
  mix: (count) => onInfiniBand([`M:size=16,batch=64,count=${count}`], { duration: '5ms' }),
  policies: ['none'],
  panels: overCopies('M', 'Message rate of an application', 'Mmps', (app) => app.messageRateMmps),
} satisfies Figure<number>;
