/** PeRF compared with hardware schedulers, and in a congested network. */

import { avgUs, fairness, gbps, mmps, p99Us } from '../../mix/metrics.ts';
import type { Claim, Runs } from '../engine/claim.ts';
import { compared, factor, PERF } from '../engine/compared.ts';
import { atLeast, atMost, below, equal, reported } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';

/** PeRF's congested network: three hosts in each rack and one trunk. Each B_App sends to its counterpart. */
export const RACKS = Object.freeze({
  hosts: 6,
  topology: 'dumbbell',
  set: Object.freeze({ congestionControl: 'dcqcn' }),
  duration: '100ms',
  warmup: '50ms',
} as const);
export const RACKS_D = 'D:size=16,think=5us,host=0,to=3';
export const RACKS_B = (count: 1 | 3) =>
  count === 1 ? 'B:size=1MiB,count=1,host=0,to=3' : 'B:size=1MiB,count=3,host=0-2,to=3-5';

const set = { scheduler: 'ets', etsWeights: '16,1' };

const ets: Claim = {
  id: 'ets',
  system: 'perf',
  part: 6,
  title: 'B_App and M_App get as much as with ETS 16:1 in hardware',
  source: 'PeRF 5.2.1, fig. 7(b): similar',
  shows: ['perf-5.2.1-fig7b-ets'],
  note: 'Expected: each gets at least 90 % of what it gets with ETS.',
  smoke: true,
  mixes: {
    perf: mix('cx6-100g', ['B:size=1MiB', 'M:size=16'], { policy: 'perf' }),
    ets: mix('cx6-100g', ['B:size=1MiB,class=0', 'M:size=16,class=1'], { set }),
  },
  checks: [
    {
      what: 'bandwidth of B, relative to ETS',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs.perf, 'B') / gbps(runs.ets, 'B'),
      expect: atLeast(0.9),
    },
    {
      what: 'rate of M, relative to ETS',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs.perf, 'M') / mmps(runs.ets, 'M'),
      expect: atLeast(0.9),
    },
  ],
};

const LONG = { duration: '10ms', warmup: '2ms' };

const D = 'D:size=16,think=1us';

const DIFFERENCES = { average: avgUs, p99: p99Us };

const strictPriority: Claim = {
  id: 'strict-priority',
  system: 'perf',
  part: 6,
  title: 'B_App and D_App get about the same as with strict priority in hardware',
  source: 'PeRF 5.2.1, fig. 7(a): comparable throughput and latencies',
  shows: ['perf-5.2.1-fig7a'],
  note: 'Expected: within 10 % of the bandwidth and within 1 us of the latency. D may have to wait for a sub-message of 16 KiB, which occupies the link for 1.34 us.',
  mixes: {
    perf: mix('cx6-100g', ['B:size=1MiB', D], { ...LONG, policy: 'perf' }),
    sp: mix('cx6-100g', ['B:size=1MiB,class=1', `${D},class=0`], { ...LONG, set: { scheduler: 'sp' } }),
  },
  checks: [
    {
      what: 'bandwidth of B, relative to strict priority',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs.perf, 'B') / gbps(runs.sp, 'B'),
      expect: atLeast(0.9),
    },
    ...Object.entries(DIFFERENCES).map(([name, measure]) => ({
      what: `${name} latency of D, minus that with strict priority`,
      unit: 'us',
      measure: (runs: Runs) => measure(runs.perf, 'D') - measure(runs.sp, 'D'),
      expect: atMost(1),
    })),
  ],
};

const twoRacks: Claim = {
  id: 'two-racks',
  system: 'perf',
  part: 6,
  title: 'DCQCN shares the trunk between two racks under the policy, too',
  source: 'PeRF 5.2.4, fig. 11',
  shows: ['perf-5.2.4-fig11', 'perf-5.2.4-native', 'perf-5.2.4-queueing'],
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
      what: 'bandwidth of three B_Apps, relative to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'three', gbps, 'B'),
      expect: equal(0.1),
    },
    {
      what: 'average latency of D alongside one B_App, relative to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'one', avgUs, 'D'),
      expect: below(1),
    },
    {
      what: 'average latency of D alongside three B_Apps, relative to one: queues of the switch',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs['three perf'], 'D') / avgUs(runs['one perf'], 'D'),
      expect: reported('more'),
    },
    {
      what: 'average latency of D alongside three B_Apps, bare minus policy',
      unit: 'us',
      measure: (runs: Runs) => avgUs(runs['three bare'], 'D') - avgUs(runs['three perf'], 'D'),
      expect: reported(10),
    },
  ],
};

export const CLAIMS: readonly Claim[] = [ets, strictPriority, twoRacks];
