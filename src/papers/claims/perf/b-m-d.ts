import { avgUs, gbps, mmps } from '../../../mix/metrics.ts';
import type { Claim, Runs } from '../../engine/claim.ts';
import { compared, factor, PERF } from '../../engine/compared.ts';
import { atLeast, atMost, reported } from '../../engine/expect.ts';

export default {
  part: 1,
  title: 'B_App, M_App and D_App together',
  source:
    'Not in the paper, whose rule leaves D_App as bad as bare: the traffic of M_App alone keeps the egress FIFO full',
  smoke: true,
  mixes: compared(PERF, 'all', ['B:size=1MiB', 'M:size=16', 'D:size=16,think=1us'], {
    duration: '20ms',
    warmup: '2ms',
  }),
  checks: [
    {
      what: 'bandwidth of B',
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs['all perf'], 'B'),
      expect: atLeast(85),
    },
    {
      what: 'rate of M',
      unit: 'Mmps',
      measure: (runs: Runs) => mmps(runs['all perf'], 'M'),
      expect: atLeast(12),
    },
    {
      what: 'average of D to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'all', avgUs, 'D'),
      expect: atMost(0.4),
    },
    {
      what: 'average of D to bare, the rule of the paper',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'all', avgUs, 'D', ['paper', 'bare']),
      expect: reported(0.86),
    },
  ],
} satisfies Claim;
