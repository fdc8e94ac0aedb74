import { avgUs } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { rises } from '../../engine/expect.ts';
import { RACKS, RACKS_B, RACKS_D } from '../../perf/racks.ts';

export default {
  part: 9,
  title: 'More B_Apps on the trunk of two racks: D_App waits in the queues of the switches',
  source: 'PeRF 5.2.4, fig. 11 (perf-5.2.4-queueing)',
  note: 'The paper sees it under its policy. Bare, in the model, D waits no longer beside three than beside one.',
  mixes: {
    one: mix('cx6-100g', [RACKS_B(1), RACKS_D], RACKS),
    three: mix('cx6-100g', [RACKS_B(3), RACKS_D], RACKS),
  },
  checks: [
    {
      what: 'latency of D beside three B_Apps to that beside one',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs.three, 'D') / avgUs(runs.one, 'D'),
      expect: rises(),
    },
  ],
} satisfies Claim;
