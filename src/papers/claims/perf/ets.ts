import { gbps, mmps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { atLeast } from '../../engine/expect.ts';

const set = { scheduler: 'ets', etsWeights: '16,1' };

export default {
  part: 6,
  title: 'B_App and M_App as with ETS 16:1 of the hardware',
  source: 'PeRF 5.2.1, fig. 7(b) (perf-5.2.1-fig7b-ets): similar',
  note: 'In numbers: not below either by more than 10 %.',
  smoke: true,
  mixes: {
    perf: mix('cx6-100g', ['B:size=1MiB', 'M:size=16'], { policy: 'perf' }),
    ets: mix('cx6-100g', ['B:size=1MiB,class=0', 'M:size=16,class=1'], { set }),
  },
  checks: [
    {
      what: 'bandwidth of B to that with ETS',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs.perf, 'B') / gbps(runs.ets, 'B'),
      expect: atLeast(0.9),
    },
    {
      what: 'rate of M to that with ETS',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs.perf, 'M') / mmps(runs.ets, 'M'),
      expect: atLeast(0.9),
    },
  ],
} satisfies Claim;
