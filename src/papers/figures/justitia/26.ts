import { overCopies } from '../../engine/copies.ts';
import type { Figure } from '../../engine/figure.ts';
import { onInfiniBand } from '../../justitia/kinds.ts';

export default {
  title: 'Several latency applications',
  source: 'Justitia appendix B, fig. 26: latencies grow, equally for all',
  note: 'Here they do not grow: the round of so few small packets is far from full.',
  x: { title: 'applications', values: [1, 2, 4, 8, 16] },
  mix: (count) => onInfiniBand([`D:size=16,think=1us,count=${count}`], { duration: '5ms' }),
  policies: ['none'],
  panels: [
    ...overCopies<number>('D', 'Average latency of an application', 'us', (app) => app.latencyUs?.avg ?? 0),
    ...overCopies<number>('D', 'Message rate of an application', 'Mmps', (app) => app.messageRateMmps),
  ].filter(({ title }) => title !== 'Average latency of an application: all'),
} satisfies Figure<number>;
