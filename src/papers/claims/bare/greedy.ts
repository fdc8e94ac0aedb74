import { avgUs, p50Us } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { range, ratio, reported } from '../../engine/expect.ts';

const D = 'D:size=16,think=1us';
const SIXTEEN = 'B:name=large,size=1MB,count=16';
const long = { duration: '60ms', warmup: '2ms' };

export default {
  part: 7,
  title: 'A latency application beside 16 bandwidth applications on a device that serves in deep bursts',
  source: 'Justitia 3.1.1, appendix B.1, and 2.2 (justitia-3.1.1-139x, justitia-2.2-greedy)',
  note: 'Justitia assumes a greedy device, PeRF and Palos a packet round: they cannot both be had at once.',
  smoke: true,
  mixes: {
    alone: mix('cx3-56g', D),
    greedy: mix('cx3-56g', [SIXTEEN, D], long),
    round: mix('cx3-56g', [SIXTEEN, D], { ...long, set: { scheduler: 'rr' } }),
  },
  checks: [
    {
      what: 'latency to its latency alone, greedy',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs.greedy, 'D') / avgUs(runs.alone, 'D'),
      expect: ratio(139),
    },
    {
      what: 'the same of the median',
      unit: 'x',
      measure: (runs: Runs) => p50Us(runs.greedy, 'D') / p50Us(runs.alone, 'D'),
      expect: reported(139),
    },
    {
      what: 'latency to its latency alone, packet round: it cannot',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs.round, 'D') / avgUs(runs.alone, 'D'),
      expect: range(1, 30),
    },
  ],
} satisfies Claim;
