import { avgUs, p99Us } from '../../../mix/metrics.ts';
import type { Claim, Runs } from '../../engine/claim.ts';
import { compared, factor, PERF } from '../../engine/compared.ts';
import { reported } from '../../engine/expect.ts';

const THINKS = ['0', '1us', '2us', '3us', '4us', '5us'];
const WORDS = { perf: 'adaptive waits', paper: 'the rule of the paper' };

export default {
  part: 1,
  title: 'What D_App gains, by its mean pause',
  source: 'Not in the paper, which does not say how long D_App pauses',
  note: 'Two loops without a pause lock to each other, so one point proves nothing.',
  mixes: Object.assign(
    {},
    ...THINKS.map((think) =>
      compared(PERF, think, ['B:size=1MiB', `D:size=16,think=${think}`], { duration: '10ms', warmup: '2ms' }),
    ),
  ),
  checks: THINKS.flatMap((think) =>
    Object.entries(WORDS).flatMap(([word, rule]) => [
      {
        what: `average of D to bare, pauses of ${think}, ${rule}`,
        unit: 'x',
        measure: (runs: Runs) => factor(runs, think, avgUs, 'D', [word, 'bare']),
        expect: reported('-'),
      },
      {
        what: `p99 of D to bare, pauses of ${think}, ${rule}`,
        unit: 'x',
        measure: (runs: Runs) => factor(runs, think, p99Us, 'D', [word, 'bare']),
        expect: reported('-'),
      },
    ]),
  ),
} satisfies Claim;
