import { gbps } from '../../../mix/metrics.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, stated } from '../../engine/panels.ts';
import { flows } from '../../palos/flows.ts';

const WEIGHTS = [1, 2, 3, 4, 5, 6];
const qp = (n: number, group: string, weight: number) =>
  `B:name=qp${n},size=2MB,tenant=${group},group=${group},qpWeight=${weight}`;
const apps = (weight: number) => [
  ...[1, 2, 3].map((n) => qp(n, 'a', 2)),
  qp(4, 'b', 3),
  qp(5, 'b', 2),
  qp(6, 'b', weight),
];
const group = (title: string, names: string[]) => ({
  title,
  unit: 'Gbps',
  measure: (run: Parameters<typeof gbps>[0]) => names.reduce((sum, name) => sum + gbps(run, name), 0),
  paper: stated(
    'palos',
    'V-C',
    WEIGHTS.map((weight) => [weight, 50]),
  ),
});

export default {
  title: 'Two groups of three queue pairs; the weight of one of them changes',
  source: 'Palos V-C, fig. 11: both groups stay at 50 Gbps',
  note: 'token-bucket has groups, as tenants, and no weights of queue pairs.',
  x: { title: 'weight of QP 6', values: WEIGHTS },
  mix: (weight) => flows(apps(weight), { duration: '10ms' }),
  series: { 'token-bucket': () => ({ policy: 'token-bucket' }) },
  panels: [
    group('Bandwidth of group A', ['qp1', 'qp2', 'qp3']),
    group('Bandwidth of group B', ['qp4', 'qp5', 'qp6']),
    bandwidth<number>('qp4'),
    bandwidth<number>('qp5'),
    bandwidth<number>('qp6'),
  ],
} satisfies Figure<number>;
