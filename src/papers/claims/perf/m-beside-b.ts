import { gbps, mmps, p50Us } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { compared, factor, PERF } from '../../engine/compared.ts';
import { atLeast, reported } from '../../engine/expect.ts';

const ONE_WAY = ['write', 'send'];
const OPERATIONS = [...ONE_WAY, 'read'];
/** READs that a queue pair may have outstanding. */
const RD_ATOMIC = 16;
/** What one queue pair does at most, in millions per second. */
const QP_MMPS = 12.4;

export default {
  part: 1,
  title: 'M_App keeps its rate beside B_App, which keeps its bandwidth',
  source: 'PeRF 5.2.2, fig. 8(b), and 5.2.5, fig. 12(b) (perf-5.2.2-fig8-perf, perf-5.2.5-fig12b)',
  note: 'READs outstanding bound the rate of READ, so that the 3x of the paper does not follow; the round trip is that of a D_App in the same run.',
  mixes: {
    ...Object.assign(
      {},
      ...OPERATIONS.map((op) => compared(PERF, op, [`B:size=1MiB,op=${op}`, `M:size=16,op=${op}`])),
    ),
    'round trip': mix(
      'cx6-100g',
      ['B:size=1MiB,op=read', 'M:size=16,op=read', 'D:size=16,op=read,think=5us'],
      { policy: 'perf' },
    ),
  },
  checks: [
    ...ONE_WAY.flatMap((op) => [
      {
        what: 'bandwidth of B',
        at: op,
        unit: 'Gbps',
        measure: (runs: Runs) => gbps(runs[`${op} perf`], 'B'),
        expect: atLeast(87),
      },
      {
        what: 'rate of M',
        at: op,
        unit: 'Mmps',
        measure: (runs: Runs) => mmps(runs[`${op} perf`], 'M'),
        expect: atLeast(9),
      },
      {
        what: 'rate of M to bare',
        at: op,
        unit: 'x',
        measure: (runs: Runs) => factor(runs, op, mmps, 'M'),
        expect: atLeast(2.7),
      },
      {
        what: 'bandwidth of B, the rule of the paper',
        at: op,
        unit: 'Gbps',
        measure: (runs: Runs) => gbps(runs[`${op} paper`], 'B'),
        expect: atLeast(87),
      },
      {
        what: 'rate of M, the rule of the paper',
        at: op,
        unit: 'Mmps',
        measure: (runs: Runs) => mmps(runs[`${op} paper`], 'M'),
        expect: atLeast(9),
      },
    ]),
    {
      what: 'rate of READs of M to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'read', mmps, 'M'),
      expect: atLeast(2),
    },
    {
      what: 'rate of READs of M to the least of 12.4 Mmps and 16 in a round trip',
      unit: 'x',
      measure: (runs: Runs) => {
        const bound = Math.min(QP_MMPS, RD_ATOMIC / p50Us(runs['round trip'], 'D'));
        return mmps(runs['round trip'], 'M') / bound;
      },
      expect: atLeast(0.9),
    },
    {
      what: 'bandwidth of READs of B to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'read', gbps, 'B'),
      expect: reported('-'),
    },
  ],
} satisfies Claim;
