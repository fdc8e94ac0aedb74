import { avgUs, mmps, p99Us } from '../../../mix/metrics.ts';
import type { Claim, Runs } from '../../engine/claim.ts';
import { compared, factor, PERF } from '../../engine/compared.ts';
import { atLeast, atMost, reported } from '../../engine/expect.ts';

const MULTI = 'M:name=multi,size=16,qps=16';
const LONG = { duration: '10ms', warmup: '2ms' };

export default {
  part: 2,
  title: 'M_App_multi of 16 queue pairs takes less from M_App_single and D_App_single',
  source: 'PeRF 5.2.3, fig. 10(a) and (b): up to 35 % more rate, 22 % less p99, 5 % less average',
  smoke: true,
  mixes: {
    ...compared(PERF, 'm', [MULTI, 'M:name=single,size=16'], LONG),
    ...compared(PERF, 'd', [MULTI, 'D:size=16,think=1us'], LONG),
  },
  checks: [
    {
      what: 'rate of M_App_single to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'm', mmps, 'single'),
      expect: atLeast(1.35),
    },
    {
      what: 'average of D to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'd', avgUs, 'D'),
      expect: atMost(0.95),
    },
    {
      what: 'p99 of D to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'd', p99Us, 'D'),
      expect: atMost(0.95),
    },
    {
      what: 'p99 of D to bare, against the figure of the paper',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'd', p99Us, 'D'),
      expect: reported(0.78),
    },
    {
      what: 'rate of M_App_multi to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'm', mmps, 'multi'),
      expect: reported('-'),
    },
  ],
} satisfies Claim;
