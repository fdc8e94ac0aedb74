import { type Claim, mix, type Runs } from '../claim.ts';
import { falls, rises } from '../expect.ts';
import { avgUs, mmps } from '../metrics.ts';

const B = 'B:size=1MB';
const D = 'D:size=16,think=1us';
const M = 'M:size=16,batch=64';
const more = { duration: '20ms', set: { linkGbps: 10, congestionControl: 'dcqcn' } };

export default {
  part: 10,
  title: 'Congestion control does not help: the conflict is inside the sender (10 Gbps, DCQCN, PFC)',
  source: 'Justitia 3.3 (justitia-3.3-dcqcn)',
  mixes: {
    d: mix('cx4-40g', D, more),
    bd: mix('cx4-40g', [B, D], more),
    m: mix('cx4-40g', M, more),
    bm: mix('cx4-40g', [B, M], more),
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
