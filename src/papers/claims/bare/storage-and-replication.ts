import { gbps, p99Us } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { equal, ratio, reported, rises } from '../../engine/expect.ts';

const D = 'D:size=8-1024,think=1us';
const B = 'B:size=1MB,qps=8';
const measure = (runs: Runs) => p99Us(runs.both, 'D') / p99Us(runs.d, 'D');

export default {
  part: 10,
  title: 'Small requests (as of DARE) beside 8 parallel 1 MB writes (as of Crail)',
  source: 'Justitia 3.2, fig. 6 (justitia-3.2-fig6)',
  note: 'A stand-in. A device that makes 16 competitors cost 139x makes 8 cost more than 4.6x.',
  mixes: {
    d: mix('cx3-56g', D),
    b: mix('cx3-56g', B),
    both: mix('cx3-56g', [B, D], { duration: '40ms' }),
  },
  checks: [
    { what: 'p99 of the small requests to that alone', unit: 'x', measure, expect: rises() },
    { what: 'the same against the factor of the paper', unit: 'x', measure, expect: reported(4.6) },
    {
      what: 'bandwidth beside the small requests',
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs.both, 'B'),
      expect: ratio(51.1),
    },
    {
      what: 'bandwidth beside the small requests to that alone',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs.both, 'B') / gbps(runs.b, 'B'),
      expect: equal(0.05),
    },
  ],
} satisfies Claim;
