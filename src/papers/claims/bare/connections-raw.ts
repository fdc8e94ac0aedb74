import { avgUs } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { reported, rises } from '../../engine/expect.ts';

const beside = (connections: number) =>
  mix(
    'cx5-40g',
    ['D:name=fg,size=32,think=1us', `M:name=bg,size=1KB,batch=20,depth=20,qps=${connections - 1}`],
    {
      set: { qpcEntries: 20 },
      duration: '20ms',
    },
  );
const measure = (runs: Runs) => avgUs(runs.hundred, 'fg') / avgUs(runs.fifty, 'fg');

export default {
  part: 5,
  title: 'One 32 B message at a time beside 49 and 99 other connections',
  source: 'DRUM V, test case 1, fig. 10 (drum-V-tc1-fig10-raw)',
  note: 'The factor is of the 80th percentile; load of the others and their sizes are not given.',
  mixes: { fifty: beside(50), hundred: beside(100) },
  checks: [
    { what: 'latency beside 99 to that beside 49', unit: 'x', measure, expect: rises() },
    { what: 'the same against the factor of the paper', unit: 'x', measure, expect: reported(3.41) },
  ],
} satisfies Claim;
