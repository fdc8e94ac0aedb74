import { avgUs, gbps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { falls, range, ratio } from '../../engine/expect.ts';

const D = 'D:size=16,think=1us';
const set = { scheduler: 'sp' };

export default {
  part: 8,
  title: 'Strict priority protects D_App, and lets M_App starve B_App',
  source: 'PeRF 5.2.1, fig. 7 (perf-5.2.1-fig7a, perf-5.2.1-fig7b-sp)',
  note: 'A lower class is not served while a queue pair of a higher one holds a posted request: an assumption.',
  smoke: true,
  mixes: {
    d: mix('cx6-100g', D),
    b: mix('cx6-100g', 'B:size=1MiB'),
    bd: mix('cx6-100g', ['B:size=1MiB,class=1', `${D},class=0`], { set }),
    bm: mix('cx6-100g', ['B:size=1MiB,class=1', 'M:size=16,class=0'], { set }),
  },
  checks: [
    {
      what: 'latency of D beside B to its latency alone',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs.bd, 'D') / avgUs(runs.d, 'D'),
      expect: ratio(1),
    },
    {
      what: 'bandwidth of B beside D',
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs.bd, 'B'),
      expect: range(97.9, 97.9, 1.5),
    },
    {
      what: 'bandwidth of B beside M to its bandwidth alone',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs.bm, 'B') / gbps(runs.b, 'B'),
      expect: falls(),
    },
  ],
} satisfies Claim;
