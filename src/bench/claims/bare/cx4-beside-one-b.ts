import { type Claim, mix, type Runs } from '../claim.ts';
import { falls, ratio, reported } from '../expect.ts';
import { mmps, p50Us, p99Us } from '../metrics.ts';

const D = 'D:size=16,think=1us';
const M = 'M:size=16,batch=64';
const B = 'B:size=1MB';

export default {
  part: 2,
  title: 'A latency and a throughput application beside one with 1 MB messages, RoCEv2 ConnectX-4 40G',
  source: 'Justitia 3.1.1, figs. 3 and 4 (justitia-3.1.1-fig3-roce, justitia-3.1.1-fig4)',
  mixes: {
    d: mix('cx4-40g', D),
    bd: mix('cx4-40g', [B, D], { duration: '20ms' }),
    m: mix('cx4-40g', M),
    bm: mix('cx4-40g', [B, M], { duration: '20ms' }),
  },
  checks: [
    {
      what: 'median of the latency application to its median alone',
      unit: 'x',
      measure: (runs: Runs) => p50Us(runs.bd, 'D') / p50Us(runs.d, 'D'),
      expect: ratio(3.82),
    },
    {
      what: 'its p99 to its p99 alone',
      unit: 'x',
      measure: (runs: Runs) => p99Us(runs.bd, 'D') / p99Us(runs.d, 'D'),
      expect: ratio(4),
    },
    {
      what: 'rate of the throughput application to its rate alone',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs.bm, 'M') / mmps(runs.m, 'M'),
      expect: falls(2.85),
    },
    {
      what: 'median of the latency application alone',
      unit: 'us',
      measure: (runs: Runs) => p50Us(runs.d, 'D'),
      expect: reported('not given'),
    },
  ],
} satisfies Claim;
