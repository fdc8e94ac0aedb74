import { gbps, mmps } from '../../../mix/metrics.ts';
import type { Claim, Runs } from '../../engine/claim.ts';
import { compared, PERF } from '../../engine/compared.ts';
import { atLeast, reported } from '../../engine/expect.ts';

const QPS = [1, 8];
const LONG = { duration: '12ms', warmup: '4ms' };

export default {
  part: 5,
  title: '1,000 B_Apps, of 1 and of 8 queue pairs, beside M_App',
  source: 'PeRF 5.2.5, fig. 13(a), and 4.4 (perf-5.2.5-fig13a, perf-4.4-scal): 87 Gbps and 9.7 Mmps',
  note: 'A rotation of all takes 200 ms, so that shares are shown with 16 of them (many-b).',
  mixes: Object.assign(
    {},
    ...QPS.map((qps) => compared(PERF, `${qps}`, [`B:size=1MiB,count=1000,qps=${qps}`, 'M:size=16'], LONG)),
  ),
  checks: QPS.flatMap((qps) => [
    {
      what: 'rate of M',
      at: `${qps} each`,
      unit: 'Mmps',
      measure: (runs: Runs) => mmps(runs[`${qps} perf`], 'M'),
      expect: atLeast(9.5),
    },
    {
      what: 'bandwidth of all B',
      at: `${qps} each`,
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs[`${qps} perf`], 'B'),
      expect: atLeast(85),
    },
    {
      what: `rate of M, the rule of the paper, ${qps} each`,
      unit: 'Mmps',
      measure: (runs: Runs) => mmps(runs[`${qps} paper`], 'M'),
      expect: reported(9.7),
    },
  ]),
} satisfies Claim;
