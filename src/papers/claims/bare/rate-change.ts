import { gbps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { equal, range } from '../../engine/expect.ts';

const LIMIT_GBPS = 2;
const B = 'B:size=64KiB';
const LIMITED = `${B},rate=${LIMIT_GBPS}Gbps`;
const early = { duration: '1900us', warmup: '100us' };

export default {
  part: 10,
  title: 'A rate limiter of the hardware takes 2 ms to take effect',
  source: 'Justitia 6.3 and appendix E.1 (justitia-6.3-hw-limits)',
  note:
    'The limit is set as the queue pair is made. Of the 2 lossless queues of the paper, and of the milliseconds that it ' +
    'takes to move a queue pair to another, the model has none: it has 8 classes.',
  mixes: {
    'before, no limit': mix('cx6-100g', B, early),
    before: mix('cx6-100g', LIMITED, early),
    after: mix('cx6-100g', LIMITED, { duration: '22ms', warmup: '2100us' }),
  },
  checks: [
    {
      what: 'bandwidth in the first 1.9 ms to that without a limit',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs.before, 'B') / gbps(runs['before, no limit'], 'B'),
      expect: equal(0.01),
    },
    {
      what: 'bandwidth from 2.1 ms on to the limit',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs.after, 'B') / LIMIT_GBPS,
      expect: range(0.88, 1.1, 0.01),
    },
  ],
} satisfies Claim;
