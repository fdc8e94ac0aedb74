import { gbps, mmps } from '../../../mix/metrics.ts';
import type { Claim, Runs } from '../../engine/claim.ts';
import { compared, factor, PERF } from '../../engine/compared.ts';
import { atLeast, reported } from '../../engine/expect.ts';

const QPS = [2, 4, 8, 16];
const LONG = { duration: '10ms', warmup: '2ms' };
const at = (qps: number) => `${qps} queue pairs`;

export default {
  part: 2,
  title: 'M_App_multi leaves B_App its bandwidth, whatever the number of its queue pairs',
  source: 'PeRF 5.2.3, fig. 10(c) (perf-5.2.3-fig10c): 88 Gbps and 9 Mmps, QNum_allow 1',
  mixes: Object.assign(
    {},
    ...QPS.map((qps) => compared(PERF, `${qps}`, ['B:size=1MiB', `M:size=16,qps=${qps}`], LONG)),
  ),
  checks: QPS.flatMap((qps) => [
    {
      what: 'bandwidth of B',
      at: at(qps),
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs[`${qps} perf`], 'B'),
      expect: atLeast(87),
    },
    {
      what: 'rate of M_App_multi',
      at: at(qps),
      unit: 'Mmps',
      measure: (runs: Runs) => mmps(runs[`${qps} perf`], 'M'),
      expect: atLeast(9),
    },
    {
      what: 'bandwidth of B, the rule of the paper',
      at: at(qps),
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs[`${qps} paper`], 'B'),
      expect: atLeast(87),
    },
    {
      what: 'rate of M_App_multi, the rule of the paper',
      at: at(qps),
      unit: 'Mmps',
      measure: (runs: Runs) => mmps(runs[`${qps} paper`], 'M'),
      expect: atLeast(9),
    },
    {
      what: `bandwidth of B to bare, ${at(qps)}`,
      unit: 'x',
      measure: (runs: Runs) => factor(runs, `${qps}`, gbps, 'B'),
      expect: reported('-'),
    },
  ]),
} satisfies Claim;
