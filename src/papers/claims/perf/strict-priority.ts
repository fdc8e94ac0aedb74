import { avgUs, gbps, p99Us } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { atLeast, atMost } from '../../engine/expect.ts';

const LONG = { duration: '10ms', warmup: '2ms' };
const D = 'D:size=16,think=1us';
const DIFFERENCES = { average: avgUs, p99: p99Us };

export default {
  part: 6,
  title: 'B_App and D_App as with strict priority of the hardware',
  source: 'PeRF 5.2.1, fig. 7(a) (perf-5.2.1-fig7a): comparable throughput and latencies',
  note: 'In numbers: within 10 % of the bandwidth, and within 1 us. A sub-message of 16 KiB, for which D may have to wait, is on the wire for 1.34 us.',
  mixes: {
    perf: mix('cx6-100g', ['B:size=1MiB', D], { ...LONG, policy: 'perf' }),
    sp: mix('cx6-100g', ['B:size=1MiB,class=1', `${D},class=0`], { ...LONG, set: { scheduler: 'sp' } }),
  },
  checks: [
    {
      what: 'bandwidth of B to that with strict priority',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs.perf, 'B') / gbps(runs.sp, 'B'),
      expect: atLeast(0.9),
    },
    ...Object.entries(DIFFERENCES).map(([name, measure]) => ({
      what: `${name} of D, more than with strict priority`,
      unit: 'us',
      measure: (runs: Runs) => measure(runs.perf, 'D') - measure(runs.sp, 'D'),
      expect: atMost(1),
    })),
  ],
} satisfies Claim;
