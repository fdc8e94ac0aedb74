import { mmps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { equal, falls, rises } from '../../engine/expect.ts';

const COUNTS = [2, 6, 16, 32];
const M = 'M:name=one,size=16';

export default {
  part: 6,
  title: 'M_App_multi hurts M_App_single only past the message rate of the device (9 queue pairs)',
  source: 'PeRF 2.3.2, fig. 3(b) (perf-2.3.2-fig3b)',
  smoke: true,
  mixes: {
    alone: mix('cx6-100g', M),
    ...Object.fromEntries(
      COUNTS.map((n) => [
        `${n}`,
        mix('cx6-100g', [M, `M:name=many,size=16,qps=${n}`], { duration: '2ms', warmup: '500us' }),
      ]),
    ),
  },
  checks: [
    ...COUNTS.map((n) => ({
      what: n < 9 ? 'rate of the one to its rate alone, below' : 'the same, past the message rate',
      at: `n = ${n}`,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[n], 'one') / mmps(runs.alone, 'one'),
      expect: n < 9 ? equal(0.05) : falls(),
    })),
    {
      what: 'rate of the many, 6 to 2 queue pairs',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[6], 'many') / mmps(runs[2], 'many'),
      expect: rises(),
    },
  ],
} satisfies Claim;
