import { gbps, mmps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { falls, ratio } from '../../engine/expect.ts';

const LARGE = 'B:name=large,size=2MB';
const small = (size: number) => `M:name=small,size=${size}B,qps=16`;

export default {
  part: 10,
  title: '16 small flows and a large one on ConnectX-5: both lose',
  source:
    'Palos II-B, fig. 2, and V-A, fig. 7 (palos-II.B-fig2-64B, palos-II.B-fig2-sweep, palos-V.A-fig7-cx5)',
  note: 'At MTU 4096. Fig. 7 ends at 0.058 % in the text, which is 5.8 %: one share of 17.',
  mixes: {
    large: mix('cx5-100g', LARGE),
    small: mix('cx5-100g', small(64)),
    ...Object.fromEntries([64, 256, 4096].map((size) => [`${size}`, mix('cx5-100g', [LARGE, small(size)])])),
  },
  checks: [
    {
      what: 'large flow to its peak, small ones of 64 B',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs[64], 'large') / gbps(runs.large, 'large'),
      expect: ratio(0.67),
    },
    {
      what: 'small flows to their peak, 64 B',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[64], 'small') / mmps(runs.small, 'small'),
      expect: ratio(0.45),
    },
    {
      what: 'large flow to its peak, small ones of 256 B',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs[256], 'large') / gbps(runs.large, 'large'),
      expect: ratio(0.47),
    },
    {
      what: 'large flow to its peak, small ones of 4096 B',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs[4096], 'large') / gbps(runs.large, 'large'),
      expect: ratio(0.058),
    },
    {
      what: 'large flow, small ones of 4096 B to 64 B',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs[4096], 'large') / gbps(runs[64], 'large'),
      expect: falls(),
    },
  ],
} satisfies Claim;
