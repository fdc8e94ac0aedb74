import { overCopies } from '../../engine/copies.ts';
import type { Figure } from '../../engine/figure.ts';
import { onInfiniBand } from '../../justitia/kinds.ts';

export default {
  title: 'A growing number of throughput applications',
  source: 'Justitia 6.2, fig. 17(b): roughly equal numbers of messages',
  x: { title: 'applications', values: [2, 4, 8, 16] },
  mix: (count) => onInfiniBand([`M:size=16,batch=64,count=${count}`], { duration: '5ms' }),
  panels: overCopies('M', 'Message rate of an application', 'Mmps', (app) => app.messageRateMmps),
} satisfies Figure<number>;
