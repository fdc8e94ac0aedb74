import { avgUs, gbps, mmps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { rises } from '../../engine/expect.ts';

const D = 'D:size=16,think=1us';
const M = 'M:size=16';
const B = 'B:size=1MiB';
const set = { scheduler: 'ets', etsWeights: '16,1' };

export default {
  part: 8,
  title: 'Weighted bytes, 16 for B_App and 1 for the others: B_App keeps its bandwidth, D_App waits',
  source: 'PeRF 5.2.1, fig. 7(b) and footnote 4 (perf-5.2.1-fig7b-ets, perf-5.2.1-ets-d)',
  mixes: {
    d: mix('cx6-100g', D),
    b: mix('cx6-100g', B),
    round: mix('cx6-100g', [B, M]),
    bd: mix('cx6-100g', [`${B},class=0`, `${D},class=1`], { set }),
    bm: mix('cx6-100g', [`${B},class=0`, `${M},class=1`], { set }),
  },
  checks: [
    {
      what: 'bandwidth of B beside M to its bandwidth alone',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs.bm, 'B') / gbps(runs.b, 'B'),
      expect: rises(0.9),
    },
    {
      what: 'rate of M beside B to that with a packet round',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs.bm, 'M') / mmps(runs.round, 'M'),
      expect: rises(),
    },
    {
      what: 'latency of D beside B to its latency alone: no help',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs.bd, 'D') / avgUs(runs.d, 'D'),
      expect: rises(3),
    },
  ],
} satisfies Claim;
