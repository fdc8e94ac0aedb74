import { mmps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { equal, falls } from '../../engine/expect.ts';

const SIZES = [1024, 2048, 4096];
const FIVE = 'M:name=small,size=64,count=5';

export default {
  part: 3,
  title: 'Five applications with small messages, and a sixth with larger ones: as many messages each',
  source: 'PeRF 2.2, fig. 1(a) (perf-2.2-fig1a)',
  mixes: {
    five: mix('cx6-100g', FIVE),
    ...Object.fromEntries(
      SIZES.map((size) => [`${size}`, mix('cx6-100g', [FIVE, `M:name=large,size=${size}B`])]),
    ),
  },
  checks: SIZES.flatMap((size) => [
    {
      what: 'rate of the five to their rate without the sixth',
      at: `${size} B`,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[size], 'small') / mmps(runs.five, 'small'),
      expect: falls(),
    },
    {
      what: 'rate of the sixth to that of each of the five',
      at: `${size} B`,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[size], 'large') / (mmps(runs[size], 'small') / 5),
      expect: equal(0.05),
    },
  ]),
} satisfies Claim;
