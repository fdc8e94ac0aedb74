import { spread } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { equal } from '../../engine/expect.ts';

const COUNTS = [2, 4, 8, 16];

export default {
  part: 6,
  title: 'Many message-rate applications on an InfiniBand ConnectX-3 get the same',
  source: 'Justitia appendix B, fig. 27 (justitia-B-fig27)',
  note: 'The text does not say how many there are.',
  mixes: Object.fromEntries(
    COUNTS.map((n) => [n, mix('cx3-56g', `M:size=16,batch=64,count=${n}`, { duration: '40ms' })]),
  ),
  checks: COUNTS.map((n) => ({
    what: 'largest message rate to the smallest',
    at: `${n}`,
    unit: 'x',
    measure: (runs: Runs) => spread(runs[n], 'M'),
    expect: equal(0.05),
    deviation:
      n === 16 ? '5 ms in the first run, too few turns of a greedy device: up to 1.244 x' : undefined,
  })),
} satisfies Claim;
