import { gbps } from '../../../mix/metrics.ts';
import type { Figure, Panel } from '../../engine/figure.ts';
import { flows } from '../../palos/flows.ts';

const WEIGHTS = Array.from({ length: 16 }, (_, i) => 10 + i);
const SUM = WEIGHTS.reduce((sum, weight) => sum + weight, 0);
/** Of the two queue pairs of each group. */
const QPS = [2, 3];
const APPS = WEIGHTS.flatMap((weight) =>
  QPS.map(
    (qp) =>
      `B:name=g${weight}-${qp},size=2MB,tenant=g${weight},group=g${weight},weight=${weight},qpWeight=${qp}`,
  ),
);
const share = (weight: number, qp: number) => (100 * (weight / SUM) * qp) / 5;

export default {
  title: 'Bandwidth of two queue pairs in each of 16 groups, by weights',
  source: 'Palos V-C, fig. 10: precisely as equation (1) says',
  note: 'token-bucket, and perf with it, has the weights of the groups, as tenants, and none of queue pairs. The paper draws what equation (1) says of 100 Gbps.',
  x: { title: 'weight of the group', values: WEIGHTS },
  mix: () => flows(APPS, { duration: '20ms' }),
  series: { 'token-bucket': () => ({ policy: 'token-bucket' }) },
  panels: QPS.map(
    (qp): Panel<number> => ({
      title: `Bandwidth of the queue pair of weight ${qp}`,
      unit: 'Gbps',
      measure: (run, weight) => gbps(run, `g${weight}-${qp}`),
      paper: WEIGHTS.map((weight) => ({
        series: 'palos',
        x: weight,
        value: share(weight, qp),
        from: 'V-C, equation (1)',
      })),
    }),
  ),
} satisfies Figure<number>;
