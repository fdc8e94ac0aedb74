import { avgUs, latencySpread, spread } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { equal, rises } from '../../engine/expect.ts';

const COUNTS = [2, 8, 32];

export default {
  part: 6,
  title: 'Many latency applications on an InfiniBand ConnectX-3: each waits longer, all alike',
  source: 'Justitia appendix B, fig. 26 (justitia-B-fig26)',
  note:
    'The text does not say how many there are. In the model they meet only near the message rate of the device: ' +
    '2 and 8 wait as long as one, 32 wait 3 % longer.',
  mixes: {
    1: mix('cx3-56g', 'D:size=16'),
    ...Object.fromEntries(COUNTS.map((n) => [n, mix('cx3-56g', `D:size=16,count=${n}`)])),
  },
  checks: COUNTS.flatMap((n) => [
    {
      what: 'mean latency to that of one',
      at: `${n}`,
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs[n], 'D') / avgUs(runs[1], 'D'),
      expect: rises(1),
    },
    {
      what: 'largest mean latency to the smallest',
      at: `${n}`,
      unit: 'x',
      measure: (runs: Runs) => latencySpread(runs[n], 'D'),
      expect: equal(0.05),
    },
    {
      what: 'largest message rate to the smallest',
      at: `${n}`,
      unit: 'x',
      measure: (runs: Runs) => spread(runs[n], 'D'),
      expect: equal(0.05),
    },
  ]),
} satisfies Claim;
