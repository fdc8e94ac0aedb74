import type { Claim, Runs } from '../claim.ts';
import { compared, factor, PERF } from '../compare.ts';
import { atLeast, below, equal, reported } from '../expect.ts';
import { avgUs, fairness, gbps } from '../metrics.ts';

/** Three hosts in each rack, one trunk; each B_App to its counterpart. */
const RACKS = {
  hosts: 6,
  topology: 'dumbbell',
  set: { congestionControl: 'dcqcn' },
  duration: '100ms',
  warmup: '50ms',
} as const;
const D = 'D:size=16,think=5us,host=0,to=3';

export default {
  part: 6,
  title: 'DCQCN shares the trunk of two racks under the policy too',
  source: 'PeRF 5.2.4, fig. 11 (perf-5.2.4-fig11, perf-5.2.4-native, perf-5.2.4-queueing)',
  note: 'The paper starts B_Apps 20 s apart; here they run from the beginning, and DCQCN has 50 ms to settle.',
  mixes: {
    ...compared(PERF, 'three', ['B:size=1MiB,count=3,host=0-2,to=3-5', D], RACKS),
    ...compared(PERF, 'one', ['B:size=1MiB,count=1,host=0,to=3', D], RACKS),
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
