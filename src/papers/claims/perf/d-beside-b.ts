import { avgUs, gbps, p99Us } from '../../../mix/metrics.ts';
import type { Claim, Runs } from '../../engine/claim.ts';
import { compared, factor, PERF } from '../../engine/compared.ts';
import { atLeast, atMost, reported } from '../../engine/expect.ts';

const OPERATIONS = ['write', 'send', 'read'];
/** Write and send; what a READ of D waits for is a whole round trip. */
const ONE_WAY = ['write', 'send'];
const THINKS = ['0', '5us'];
const LONG = { duration: '20ms', warmup: '2ms' };
const nameOf = (op: string, think: string) => `${op} think=${think}`;

const bandwidth = (word: string, least: number) =>
  OPERATIONS.flatMap((op) =>
    THINKS.map((think) => ({
      what: `bandwidth of B to bare, ${word === 'perf' ? 'adaptive waits' : 'the rule of the paper'}`,
      at: nameOf(op, think),
      unit: 'x',
      measure: (runs: Runs) => factor(runs, nameOf(op, think), gbps, 'B', [word, 'bare']),
      expect: atLeast(least),
    })),
  );

const latency = (what: string, ops: readonly string[], think: string, measure: typeof avgUs, most: number) =>
  ops.map((op) => ({
    what,
    at: op,
    unit: 'x',
    measure: (runs: Runs) => factor(runs, nameOf(op, think), measure, 'D'),
    expect: atMost(most),
  }));

export default {
  part: 1,
  title: 'D_App waits less beside B_App, which keeps its bandwidth',
  source: 'PeRF 5.2.2, fig. 8(a), and 5.2.5, fig. 12(a) (perf-5.2.2-fig8-perf, perf-5.2.5-fig12a)',
  note: 'The paper has -75 % for SEND and -67 % for READ. Without a pause D locks to the period of B: see d-think-time.',
  mixes: Object.assign(
    {},
    ...OPERATIONS.flatMap((op) =>
      THINKS.map((think) =>
        compared(
          PERF,
          nameOf(op, think),
          [`B:size=1MiB,op=${op}`, `D:size=16,op=${op},think=${think}`],
          LONG,
        ),
      ),
    ),
  ),
  checks: [
    ...bandwidth('perf', 0.92),
    ...bandwidth('paper', 0.95),
    ...latency('average of D to bare, no pause', ONE_WAY, '0', avgUs, 0.33),
    ...latency('average of D to bare, pauses of 5 us', ONE_WAY, '5us', avgUs, 0.4),
    ...latency('p99 of D to bare, pauses of 5 us', ONE_WAY, '5us', p99Us, 0.52),
    ...latency('average of D to bare, READ, pauses of 5 us', ['read'], '5us', avgUs, 0.52),
    {
      what: 'average of D to bare, READ, no pause',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, nameOf('read', '0'), avgUs, 'D'),
      expect: reported(0.33),
    },
  ],
} satisfies Claim;
