import { avgUs } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { reported, rises } from '../../engine/expect.ts';
import { RACKS, RACKS_B, RACKS_D } from '../../perf/racks.ts';

const beside = (...apps: string[]) => mix('cx6-100g', [...apps, RACKS_D], RACKS);

export default {
  part: 9,
  title: 'DCQCN on the trunk of two racks does not help D_App on its own host',
  source: 'PeRF 5.2.4 (perf-5.2.4-native)',
  note:
    'About 10 us more than without B_Apps, or than under the policy: the paper does not say which, nor how long its ' +
    'switches queue. Its B_Apps start 20 s apart; here they run from the beginning, and DCQCN has 50 ms to settle.',
  mixes: { alone: beside(), one: beside(RACKS_B(1)), three: beside(RACKS_B(3)) },
  checks: [
    {
      what: 'latency of D beside the B_App of its host to its latency alone',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs.one, 'D') / avgUs(runs.alone, 'D'),
      expect: rises(),
    },
    {
      what: 'latency of D beside three B_Apps, more than alone',
      unit: 'us',
      measure: (runs: Runs) => avgUs(runs.three, 'D') - avgUs(runs.alone, 'D'),
      expect: reported(10),
    },
  ],
} satisfies Claim;
