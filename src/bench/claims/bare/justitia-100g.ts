import { type Claim, mix, type Runs } from '../claim.ts';
import { falls, rises } from '../expect.ts';
import { avgUs, mmps } from '../metrics.ts';

const B = 'B:size=5MB';
const D = 'D:size=16,think=1us';
const M = 'M:size=16,batch=64';
const more = { duration: '20ms' };

export default {
  part: 10,
  title: 'The anomalies persist at 100 Gbps, with 5 MB messages',
  source: 'Justitia 3.1.4, appendix C.1 (justitia-3.1.4-100g)',
  mixes: {
    d: mix('cx5-100g', D, more),
    bd: mix('cx5-100g', [B, D], more),
    m: mix('cx5-100g', M, more),
    bm: mix('cx5-100g', [B, M], more),
  },
  checks: [
    {
      what: 'latency of D beside B to its latency alone',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs.bd, 'D') / avgUs(runs.d, 'D'),
      expect: rises(),
    },
    {
      what: 'rate of M beside B to its rate alone',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs.bm, 'M') / mmps(runs.m, 'M'),
      expect: falls(),
    },
  ],
} satisfies Claim;
