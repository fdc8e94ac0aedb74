import { avgUs, gbps, mmps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { compared, factor, type Policies } from '../../engine/compared.ts';
import { atLeast, equal, falls, reported, rises } from '../../engine/expect.ts';

const POLICIES: Policies = { bare: 'none', perf: 'perf' };
const LONG = { duration: '10ms', warmup: '2ms' };
const [B, D] = ['B:size=1MiB', 'D:size=16,think=1us'];
/** UC and UD: their large messages have no pieces. */
const DATAGRAMS = 'B:name=ud,size=4096,op=send,transport=ud,qps=8';

export default {
  part: 7,
  title: 'What the paper leaves for later: atomics, and queue pairs of type UD',
  source: 'PeRF appendix D (perf-D-limits)',
  note: 'Completions by event are in the tests of conformance.',
  mixes: {
    ...compared(POLICIES, 'atomic M', [B, 'M:op=atomic'], LONG),
    ...compared(POLICIES, 'atomic D', [B, 'D:op=atomic,think=1us'], LONG),
    ...compared(POLICIES, 'ud M', [B, 'M:size=16,op=send,transport=ud'], LONG),
    ...compared(POLICIES, 'ud D', [DATAGRAMS, D], LONG),
    ...compared(POLICIES, 'ud B', [DATAGRAMS, 'B:name=single,size=1MiB'], LONG),
    ...compared(POLICIES, 'ud deep B', [`${DATAGRAMS},depth=64,batch=16`, 'B:name=single,size=1MiB'], LONG),
    alone: mix('cx6-100g', DATAGRAMS, { ...LONG, policy: 'perf' }),
    'alone bare': mix('cx6-100g', DATAGRAMS, LONG),
  },
  checks: [
    {
      what: 'rate of atomics of M beside B to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'atomic M', mmps, 'M'),
      expect: rises(),
    },
    {
      what: 'average of atomics of D beside B to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'atomic D', avgUs, 'D'),
      expect: falls(),
    },
    {
      what: 'rate of datagrams of M beside B to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'ud M', mmps, 'M'),
      expect: rises(2),
    },
    {
      what: 'average of D beside datagrams of 4 KiB of 8 queue pairs to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'ud D', avgUs, 'D'),
      expect: falls(),
    },
    {
      what: 'bandwidth of datagrams of 8 queue pairs to that of B_App_single, 64 outstanding',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs['ud deep B perf'], 'ud') / gbps(runs['ud deep B perf'], 'single'),
      expect: equal(0.2),
      deviation:
        '4 outstanding in the first run: the one queue pair that sends has 16 KiB for each round trip',
    },
    {
      what: 'bandwidth of datagrams of 8 queue pairs to that of B_App_single, 4 outstanding',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs['ud B perf'], 'ud') / gbps(runs['ud B perf'], 'single'),
      expect: reported(1),
    },
    {
      what: 'bandwidth of datagrams alone to bare',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs.alone, 'ud') / gbps(runs['alone bare'], 'ud'),
      expect: equal(0.01),
    },
    {
      what: 'bandwidth of B beside atomics of M to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'atomic M', gbps, 'B'),
      expect: atLeast(0.9),
    },
  ],
} satisfies Claim;
