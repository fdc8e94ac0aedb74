import { mmps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { equal, falls } from '../../engine/expect.ts';

const APPS = [64, 400, 900];

export default {
  part: 5,
  title: 'More connections than the own cache of the device holds (450 contexts)',
  source: 'DRUM II-D, fig. 2(c) (drum-II.D-fig2c); size of the cache: StaR',
  note: 'DRUM sees the fall at 20 connections, other sources at hundreds.',
  mixes: Object.fromEntries(APPS.map((n) => [`${n}`, mix('cx5-40g', `M:size=16,qps=${n}`)])),
  checks: [
    {
      what: 'rate of 900 queue pairs to that of 64',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[900], 'M') / mmps(runs[64], 'M'),
      expect: falls(),
    },
    {
      what: 'rate of 400 queue pairs to that of 64',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[400], 'M') / mmps(runs[64], 'M'),
      expect: equal(0.05),
    },
  ],
} satisfies Claim;
