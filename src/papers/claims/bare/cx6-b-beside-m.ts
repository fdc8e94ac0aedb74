import { gbps, mmps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { falls, range } from '../../engine/expect.ts';

const OPERATIONS = ['write', 'send', 'read'];

export default {
  part: 2,
  title: 'B_App and M_App: the one keeps its bandwidth, the other loses its rate',
  source: 'PeRF 2.3.1, fig. 2(a), and 5.2.2, fig. 8 (perf-2.3.1-fig2a, perf-5.2.2-fig8a-rdma)',
  smoke: true,
  mixes: Object.fromEntries(
    OPERATIONS.flatMap((op) => [
      [`alone ${op}`, mix('cx6-100g', `M:size=16,op=${op}`)],
      [op, mix('cx6-100g', [`B:size=1MiB,op=${op}`, `M:size=16,op=${op}`])],
    ]),
  ),
  checks: OPERATIONS.flatMap((op) => [
    {
      what: `bandwidth of B, ${op}`,
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs[op], 'B'),
      expect: range(94.8, 96.9, 1.5),
    },
    {
      what: `rate of M to its rate alone, ${op}`,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[op], 'M') / mmps(runs[`alone ${op}`], 'M'),
      expect: falls(2),
    },
  ]),
} satisfies Claim;
