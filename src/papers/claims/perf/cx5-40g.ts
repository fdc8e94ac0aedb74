import { avgUs, gbps, mmps, unevenness } from '../../../mix/metrics.ts';
import type { Claim, Runs } from '../../engine/claim.ts';
import { compared, factor, PERF } from '../../engine/compared.ts';
import { atLeast, atMost, falls, reported, rises } from '../../engine/expect.ts';

const DEVICE = { profile: 'cx5-40g', duration: '20ms', warmup: '2ms' };

export default {
  part: 8,
  title: 'The same directions on a ConnectX-5 of 40 Gbps',
  source: 'PeRF 5.2.5: experiments on other devices; the paper gives no numbers',
  note:
    "There the paper's 16 waits are half of what its slower wire needs. D does not fall to half " +
    'because a piece of half its FIFO, 8 KiB, is on that wire for 1.7 us; with subMsgSizeBytes=4096 it is at 0.47.',
  mixes: {
    ...compared(PERF, 'D', ['B:size=1MiB', 'D:size=16,think=1us'], DEVICE),
    ...compared(PERF, 'M', ['B:size=1MiB', 'M:size=16'], DEVICE),
    ...compared(PERF, 'multi', ['B:name=one,size=1MiB', 'B:name=many,size=1MiB,qps=8'], DEVICE),
    ...compared(PERF, 'four', ['B:size=1MiB,count=4', 'M:size=16'], DEVICE),
  },
  checks: [
    {
      what: 'average of D to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'D', avgUs, 'D'),
      expect: falls(2),
    },
    {
      what: 'average of D to bare, the rule of the paper',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'D', avgUs, 'D', ['paper', 'bare']),
      expect: reported(1),
    },
    {
      what: 'bandwidth of B beside D to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'D', gbps, 'B'),
      expect: atLeast(0.85),
    },
    {
      what: 'rate of M to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'M', mmps, 'M'),
      expect: rises(2),
    },
    {
      what: 'rate of M beside four B to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'four', mmps, 'M'),
      expect: rises(2),
    },
    {
      what: 'bandwidth of one of four B, farthest from the mean',
      unit: '',
      measure: (runs: Runs) => unevenness(runs['four perf'], 'B'),
      expect: atMost(0.1),
    },
    {
      what: 'bandwidth of 8 queue pairs to that of one, to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'multi', gbps, 'many') / factor(runs, 'multi', gbps, 'one'),
      expect: falls(4),
    },
  ],
} satisfies Claim;
