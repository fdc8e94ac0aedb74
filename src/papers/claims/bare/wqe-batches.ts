import { avgUs } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { reported, rises } from '../../engine/expect.ts';

const D = 'D:name=fg,size=1KB,think=1us';
const beside = (batch: number) =>
  mix('cx5-40g', [D, `M:name=bg,size=1KB,batch=${batch},depth=${batch}`], { duration: '10ms' });
const measure = (runs: Runs) => avgUs(runs.hundred, 'fg') / avgUs(runs.twenty, 'fg');

export default {
  part: 5,
  title: 'Batches of 20 and of 100 requests beside one 1 KB message at a time',
  source: 'DRUM II-A, fig. 2(a) (drum-II.A-fig2a)',
  note: 'The factor is of the 80th percentile, with a background that the paper does not describe.',
  mixes: { twenty: beside(20), hundred: beside(100) },
  checks: [
    { what: 'latency beside batches of 100 to that beside 20', unit: 'x', measure, expect: rises() },
    { what: 'the same against the factor of the paper', unit: 'x', measure, expect: reported(3.9) },
  ],
} satisfies Claim;
