import { avgUs, p99Us } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { equal, rises } from '../../engine/expect.ts';

const COUNTS = [2, 6, 16, 32];
const D = 'D:name=one,size=16,think=1us';

export default {
  part: 6,
  title: 'M_App_multi hurts D_App only past the message rate of the device (9 queue pairs)',
  source: 'PeRF 2.3.2, fig. 3(c) (perf-2.3.2-fig3c)',
  mixes: {
    alone: mix('cx6-100g', D),
    ...Object.fromEntries(
      COUNTS.map((n) => [
        `${n}`,
        mix('cx6-100g', [D, `M:name=many,size=16,qps=${n}`], { duration: '3ms', warmup: '500us' }),
      ]),
    ),
  },
  checks: COUNTS.flatMap((n) =>
    [avgUs, p99Us].map((latency) => ({
      what:
        n < 9
          ? `${latency === avgUs ? 'mean' : 'p99'} latency to that alone, below`
          : `${latency === avgUs ? 'mean' : 'p99'} latency to that alone, past the message rate`,
      at: `n = ${n}`,
      unit: 'x',
      measure: (runs: Runs) => latency(runs[n], 'one') / latency(runs.alone, 'one'),
      expect: n < 9 ? equal(latency === avgUs ? 0.1 : 0.2) : rises(),
    })),
  ),
} satisfies Claim;
