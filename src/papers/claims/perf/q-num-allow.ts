import { gbps, mmps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { atLeast, reported, rises } from '../../engine/expect.ts';

const ALLOWED = [1, 2, 4, 8];
const APPS = ['B:size=1MiB', 'M:size=16,qps=8'];
const LONG = { duration: '10ms', warmup: '2ms' };
const rate = (runs: Runs, allowed: number) => mmps(runs[`${allowed}`], 'M');

export default {
  part: 2,
  title: 'A larger QNum_allow gives M_App_multi its rate back',
  source: 'PeRF 5.2.3, fig. 10(d) to (f) (perf-5.2.3-fig10def): comparable to bare',
  mixes: {
    bare: mix('cx6-100g', APPS, LONG),
    ...Object.fromEntries(
      ALLOWED.map((n) => [`${n}`, mix('cx6-100g', APPS, { ...LONG, policy: `perf:qNumAllow=${n}` })]),
    ),
  },
  checks: [
    {
      what: 'rate of 8 queue pairs with 8 of them allowed, to bare',
      unit: 'x',
      measure: (runs: Runs) => rate(runs, 8) / mmps(runs.bare, 'M'),
      expect: atLeast(0.9),
    },
    ...ALLOWED.slice(1).map((n) => ({
      what: 'rate of 8 queue pairs with twice as many allowed, to that before',
      at: `${n} allowed`,
      unit: 'x',
      measure: (runs: Runs) => rate(runs, n) / rate(runs, n / 2),
      expect: rises(),
    })),
    ...ALLOWED.flatMap((n) => [
      {
        what: `rate of 8 queue pairs, ${n} allowed`,
        unit: 'Mmps',
        measure: (runs: Runs) => rate(runs, n),
        expect: reported('-'),
      },
      {
        what: `bandwidth of B, ${n} allowed`,
        unit: 'Gbps',
        measure: (runs: Runs) => gbps(runs[`${n}`], 'B'),
        expect: reported('-'),
      },
    ]),
  ],
} satisfies Claim;
