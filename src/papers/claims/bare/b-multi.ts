import { avgUs, mmps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { falls, rises } from '../../engine/expect.ts';

const one = 'B:size=1MiB';
const many = 'B:size=1MiB,qps=8';
const M = 'M:size=16';
const D = 'D:size=16,think=1us';

export default {
  part: 6,
  title: 'B_App_multi (8 queue pairs) is worse for M_App and D_App than B_App_single',
  source: 'PeRF 2.3.2 (perf-2.3.2-bmulti-vs-md)',
  mixes: {
    m: mix('cx6-100g', [one, M]),
    'm many': mix('cx6-100g', [many, M]),
    d: mix('cx6-100g', [one, D]),
    'd many': mix('cx6-100g', [many, D]),
  },
  checks: [
    {
      what: 'rate of M beside many to that beside one',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs['m many'], 'M') / mmps(runs.m, 'M'),
      expect: falls(),
    },
    {
      what: 'latency of D beside many to that beside one',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs['d many'], 'D') / avgUs(runs.d, 'D'),
      expect: rises(),
    },
  ],
} satisfies Claim;
