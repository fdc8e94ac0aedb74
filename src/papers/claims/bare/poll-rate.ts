import { mmps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { ratio, rises } from '../../engine/expect.ts';

const BATCHES = [1, 5, 10];
const app = (batch: number, think: string) => `M:size=1KB,batch=${batch},depth=${batch},think=${think}`;

export default {
  part: 5,
  title: 'An application that posts a batch after each polled completion is as fast as it polls',
  source: 'DRUM II-C, fig. 2(b) (drum-II.C-fig2b)',
  mixes: Object.fromEntries(
    BATCHES.flatMap((batch) =>
      ['20us', '5us'].map((think) => [
        `${batch} ${think}`,
        mix('cx5-40g', app(batch, think), { duration: '20ms' }),
      ]),
    ),
  ),
  checks: [
    ...BATCHES.map((batch) => ({
      what: 'rate with pauses of 5 us to that with 20 us',
      at: `batches of ${batch}`,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[`${batch} 5us`], 'M') / mmps(runs[`${batch} 20us`], 'M'),
      expect: rises(),
    })),
    ...BATCHES.slice(1).map((batch) => ({
      what: `rate with batches of ${batch} to that of single requests`,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[`${batch} 20us`], 'M') / mmps(runs['1 20us'], 'M'),
      expect: ratio(batch),
    })),
  ],
} satisfies Claim;
