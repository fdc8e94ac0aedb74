import { avgUs, gbps, mmps } from '../../../mix/metrics.ts';
import type { Claim, Runs } from '../../engine/claim.ts';
import { compared, factor, PERF } from '../../engine/compared.ts';
import { atLeast, equal, range } from '../../engine/expect.ts';

const QPS = [2, 4, 8, 16];
const LONG = { duration: '10ms', warmup: '2ms' };
const D = 'D:size=16,think=1us';
const SINGLE = 'B:name=single,size=1MiB';
const multi = (qps: number) => `B:name=multi,size=1MiB,qps=${qps}`;
const at = (qps: number) => `${qps} queue pairs`;

/** All three together. */
const together = (qps: number) => [
  ...['bd', 'bm'].map((mix) => ({
    what: `bandwidth of B_App_multi to that of B_App_single, beside ${mix === 'bd' ? 'D' : 'M'}`,
    at: at(qps),
    unit: 'x',
    measure: (runs: Runs) =>
      gbps(runs[`${mix} ${qps} perf`], 'multi') / gbps(runs[`${mix} ${qps} perf`], 'single'),
    expect: equal(0.05),
  })),
  {
    what: 'average of D beside both to that beside B_App_single',
    at: at(qps),
    unit: 'x',
    measure: (runs: Runs) => avgUs(runs[`bd ${qps} perf`], 'D') / avgUs(runs['d 1 perf'], 'D'),
    expect: range(0.8, 1.2),
  },
  {
    what: 'rate of M beside both',
    at: at(qps),
    unit: 'Mmps',
    measure: (runs: Runs) => mmps(runs[`bm ${qps} perf`], 'M'),
    expect: atLeast(9),
  },
];

export default {
  part: 2,
  title: 'B_App_multi gets no more than B_App_single, and harms small messages no more',
  source: 'PeRF 5.2.3, fig. 9(a) to (c) (perf-5.2.3-fig9abc)',
  mixes: {
    ...compared(PERF, 'd 1', [multi(1), D], LONG),
    ...Object.assign(
      {},
      ...QPS.flatMap((qps) => [
        compared(PERF, `b ${qps}`, [SINGLE, multi(qps)], LONG),
        compared({ perf: 'perf' }, `bd ${qps}`, [SINGLE, multi(qps), D], LONG),
        compared({ perf: 'perf' }, `bm ${qps}`, [SINGLE, multi(qps), 'M:size=16'], LONG),
        compared(PERF, `d ${qps}`, [multi(qps), D], LONG),
        compared(PERF, `m ${qps}`, [multi(qps), 'M:size=16'], LONG),
      ]),
    ),
  },
  checks: QPS.flatMap((qps) => [
    {
      what: 'bandwidth of B_App_multi to that of B_App_single',
      at: at(qps),
      unit: 'x',
      measure: (runs: Runs) => gbps(runs[`b ${qps} perf`], 'multi') / gbps(runs[`b ${qps} perf`], 'single'),
      expect: equal(0.05),
    },
    {
      what: 'bandwidth of both',
      at: at(qps),
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs[`b ${qps} perf`], 'multi') + gbps(runs[`b ${qps} perf`], 'single'),
      expect: atLeast(87),
    },
    {
      what: 'average of D beside B_App_multi to that beside B_App_single',
      at: at(qps),
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs[`d ${qps} perf`], 'D') / avgUs(runs['d 1 perf'], 'D'),
      expect: range(0.8, 1.2),
    },
    {
      what: 'bandwidth of B_App_multi beside D to bare',
      at: at(qps),
      unit: 'x',
      measure: (runs: Runs) => factor(runs, `d ${qps}`, gbps, 'multi'),
      expect: atLeast(0.92),
    },
    {
      what: 'rate of M beside B_App_multi',
      at: at(qps),
      unit: 'Mmps',
      measure: (runs: Runs) => mmps(runs[`m ${qps} perf`], 'M'),
      expect: atLeast(9),
    },
    ...together(qps),
  ]),
} satisfies Claim;
