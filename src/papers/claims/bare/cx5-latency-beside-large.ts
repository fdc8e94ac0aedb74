import { avgUs } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { ratio, reported } from '../../engine/expect.ts';

const D = 'D:name=small,size=64,think=1us';
const FACTORS = [
  [16, 5, 'palos-V.A-fig8-cx5'],
  [24, 7.8, 'palos-II.B-fig3'],
] as const;

export default {
  part: 2,
  title: 'A small flow beside many large ones on ConnectX-5',
  source: `Palos II-B, fig. 3, and V-A, fig. 8 (${FACTORS.map(([, , id]) => id).join(', ')})`,
  note: 'At MTU 4096. The pause keeps the small flow from locking to whole rounds of the large ones.',
  mixes: {
    alone: mix('cx5-100g', D),
    ...Object.fromEntries(
      FACTORS.map(([n]) => [
        `${n}`,
        mix('cx5-100g', [`B:name=large,size=2MB,count=${n}`, D], { duration: '20ms' }),
      ]),
    ),
  },
  checks: [
    ...FACTORS.map(([n, factor]) => ({
      what: `latency beside ${n} large flows to its latency alone`,
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs[n], 'small') / avgUs(runs.alone, 'small'),
      expect: ratio(factor),
    })),
    {
      what: 'latency alone (perftest: half a round trip)',
      unit: 'us',
      measure: (runs: Runs) => avgUs(runs.alone, 'small'),
      expect: reported(0.99),
    },
  ],
} satisfies Claim;
