import { avgUs, gbps, p99Us } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { range, rises } from '../../engine/expect.ts';

const D = 'D:size=16,think=1us';

export default {
  part: 2,
  title: 'B_App and D_App: the one keeps its bandwidth, the other waits',
  source: 'PeRF 2.3.1, fig. 2(b), and 5.2.2, fig. 8 (perf-2.3.1-fig2b, perf-5.2.2-fig8a-rdma)',
  smoke: true,
  mixes: { alone: mix('cx6-100g', D), both: mix('cx6-100g', ['B:size=1MiB', D]) },
  checks: [
    {
      what: 'bandwidth of B',
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs.both, 'B'),
      expect: range(97.9, 97.9, 1.5),
    },
    {
      what: 'latency of D alone',
      unit: 'us',
      measure: (runs: Runs) => avgUs(runs.alone, 'D'),
      expect: range(1, 1.25),
    },
    {
      what: 'latency of D to its latency alone',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs.both, 'D') / avgUs(runs.alone, 'D'),
      expect: range(3, 5),
    },
    {
      what: 'p99 of D to its p99 alone',
      unit: 'x',
      measure: (runs: Runs) => p99Us(runs.both, 'D') / p99Us(runs.alone, 'D'),
      expect: rises(),
    },
  ],
} satisfies Claim;
