import { cached } from '../../drum/connections.ts';
import type { Figure } from '../../engine/figure.ts';
import { rate } from '../../engine/panels.ts';

const rc = (qps: number, transport = 'rc') => `M:size=16,transport=${transport},qps=${qps}`;
/** They need no queue pair for a connection: as many as the message rate takes serve all. */
const ud = (connections: number) => `M:size=16,op=send,transport=ud,qps=${Math.min(9, connections)}`;

export default {
  title: 'Message rate by the number of connections',
  source: 'DRUM II-D, fig. 2(c): RC and UC fall beyond 20 connections, UD does not',
  note: 'The cache is set to 20 contexts, where the paper sees the fall; other sources say hundreds.',
  x: { title: 'connections', values: [4, 8, 16, 20, 24, 32, 64] },
  mix: (connections) => cached([rc(connections)], { duration: '5ms' }),
  policies: [],
  series: {
    RC: () => ({}),
    UC: (connections) => ({ apps: [rc(connections, 'uc')] }),
    UD: (connections) => ({ apps: [ud(connections)] }),
  },
  panels: [rate('M', { title: 'Message rate of all' })],
} satisfies Figure<number>;
