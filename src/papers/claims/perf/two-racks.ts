import { avgUs, fairness, gbps } from '../../../mix/metrics.ts';
import type { Claim, Runs } from '../../engine/claim.ts';
import { compared, factor, PERF } from '../../engine/compared.ts';
import { atLeast, below, equal, reported } from '../../engine/expect.ts';
import { RACKS, RACKS_B, RACKS_D } from '../../perf/racks.ts';

export default {
  part: 6,
  title: 'DCQCN shares the trunk of two racks under the policy too',
  source: 'PeRF 5.2.4, fig. 11 (perf-5.2.4-fig11, perf-5.2.4-native, perf-5.2.4-queueing)',
  note: 'The paper starts B_Apps 20 s apart; here they run from the beginning, and DCQCN has 50 ms to settle.',
  mixes: {
    ...compared(PERF, 'three', [RACKS_B(3), RACKS_D], RACKS),
    ...compared(PERF, 'one', [RACKS_B(1), RACKS_D], RACKS),
  },
  checks: [
    {
      what: 'fairness of three B_Apps',
      unit: '',
      measure: (runs: Runs) => fairness(runs['three perf'], 'B'),
      expect: atLeast(0.95),
    },
    {
      what: 'bandwidth of three B_Apps to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'three', gbps, 'B'),
      expect: equal(0.1),
    },
    {
      what: 'average of D beside one B_App to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'one', avgUs, 'D'),
      expect: below(1),
    },
    {
      what: 'average of D beside three B_Apps to that beside one: queues of the switch',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs['three perf'], 'D') / avgUs(runs['one perf'], 'D'),
      expect: reported('more'),
    },
    {
      what: 'average of D beside three B_Apps, bare, more than under the policy',
      unit: 'us',
      measure: (runs: Runs) => avgUs(runs['three bare'], 'D') - avgUs(runs['three perf'], 'D'),
      expect: reported(10),
    },
  ],
} satisfies Claim;
