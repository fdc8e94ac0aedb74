import { overCopies } from '../../engine/copies.ts';
import type { Figure } from '../../engine/figure.ts';
import { onInfiniBand } from '../../justitia/kinds.ts';

export default {
  title: 'A growing number of bandwidth applications',
  source: 'Justitia 6.2, fig. 17(a): equal shares, together close to the line rate',
  x: { title: 'applications', values: [2, 4, 8, 16] },
  mix: (count) => onInfiniBand([`B:size=1MB,count=${count}`]),
  panels: overCopies('B', 'Bandwidth of an application', 'Gbps', (app) => app.throughputGbps),
} satisfies Figure<number>;
