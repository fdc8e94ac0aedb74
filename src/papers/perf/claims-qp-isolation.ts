/** PeRF isolates queue pairs: applications with one and with many. */

import { avgUs, gbps, mmps, p99Us } from '../../mix/metrics.ts';
import type { Claim, Runs } from '../engine/claim.ts';
import { compared, factor, PERF } from '../engine/compared.ts';
import { atLeast, atMost, equal, range, reported, rises } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';

const QPS = [2, 4, 8, 16];
const LONG = { duration: '10ms', warmup: '2ms' };
const at = (qps: number) => `${qps} queue pairs`;

const D = 'D:size=16,think=1us';

const SINGLE = 'B:name=single,size=1MiB';

const multi = (qps: number) => `B:name=multi,size=1MiB,qps=${qps}`;

/** Checks of B_App_single, B_App_multi and a third application together. */
const together = (qps: number) => [
  ...['bd', 'bm'].map((mix) => ({
    what: `bandwidth of B_App_multi relative to B_App_single, alongside ${mix === 'bd' ? 'D' : 'M'}`,
    at: at(qps),
    unit: 'x',
    measure: (runs: Runs) =>
      gbps(runs[`${mix} ${qps} perf`], 'multi') / gbps(runs[`${mix} ${qps} perf`], 'single'),
    expect: equal(0.05),
  })),
  {
    what: 'average latency of D alongside both, relative to B_App_single',
    at: at(qps),
    unit: 'x',
    measure: (runs: Runs) => avgUs(runs[`bd ${qps} perf`], 'D') / avgUs(runs['d 1 perf'], 'D'),
    expect: range(0.8, 1.2),
  },
  {
    what: 'rate of M alongside both',
    at: at(qps),
    unit: 'Mmps',
    measure: (runs: Runs) => mmps(runs[`bm ${qps} perf`], 'M'),
    expect: atLeast(9),
  },
];

const bMulti: Claim = {
  id: 'b-multi',
  system: 'perf',
  part: 2,
  title: 'B_App_multi gets no more bandwidth than B_App_single, and hurts small messages no more',
  source: 'PeRF 5.2.3, fig. 9(a) to (c)',
  shows: ['perf-5.2.3-fig9abc'],
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
      what: 'bandwidth of B_App_multi relative to B_App_single',
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
      what: 'average latency of D alongside B_App_multi, relative to B_App_single',
      at: at(qps),
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs[`d ${qps} perf`], 'D') / avgUs(runs['d 1 perf'], 'D'),
      expect: range(0.8, 1.2),
    },
    {
      what: 'bandwidth of B_App_multi alongside D, relative to bare',
      at: at(qps),
      unit: 'x',
      measure: (runs: Runs) => factor(runs, `d ${qps}`, gbps, 'multi'),
      expect: atLeast(0.92),
    },
    {
      what: 'rate of M alongside B_App_multi',
      at: at(qps),
      unit: 'Mmps',
      measure: (runs: Runs) => mmps(runs[`m ${qps} perf`], 'M'),
      expect: atLeast(9),
    },
    ...together(qps),
  ]),
};

const mMultiBesideB: Claim = {
  id: 'm-multi-beside-b',
  system: 'perf',
  part: 2,
  title: 'B_App keeps its bandwidth however many queue pairs M_App_multi has',
  source: 'PeRF 5.2.3, fig. 10(c): 88 Gbps and 9 Mmps with QNum_allow 1',
  shows: ['perf-5.2.3-fig10c'],
  mixes: Object.assign(
    {},
    ...QPS.map((qps) => compared(PERF, `${qps}`, ['B:size=1MiB', `M:size=16,qps=${qps}`], LONG)),
  ),
  checks: QPS.flatMap((qps) => [
    {
      what: 'bandwidth of B',
      at: at(qps),
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs[`${qps} perf`], 'B'),
      expect: atLeast(87),
    },
    {
      what: 'rate of M_App_multi',
      at: at(qps),
      unit: 'Mmps',
      measure: (runs: Runs) => mmps(runs[`${qps} perf`], 'M'),
      expect: atLeast(9),
    },
    {
      what: "bandwidth of B, the paper's rule",
      at: at(qps),
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs[`${qps} paper`], 'B'),
      expect: atLeast(87),
    },
    {
      what: "rate of M_App_multi, the paper's rule",
      at: at(qps),
      unit: 'Mmps',
      measure: (runs: Runs) => mmps(runs[`${qps} paper`], 'M'),
      expect: atLeast(9),
    },
    {
      what: `bandwidth of B, relative to bare, ${at(qps)}`,
      unit: 'x',
      measure: (runs: Runs) => factor(runs, `${qps}`, gbps, 'B'),
      expect: reported('-'),
    },
  ]),
};

const MULTI = 'M:name=multi,size=16,qps=16';

const mMultiBesideSmall: Claim = {
  id: 'm-multi-beside-small',
  system: 'perf',
  part: 2,
  title: 'M_App_multi with 16 queue pairs takes less from M_App_single and D_App_single',
  source:
    'PeRF 5.2.3, fig. 10(a) and (b): up to 35 % more rate, 22 % less p99 latency, 5 % less average latency',
  shows: [],
  smoke: true,
  mixes: {
    ...compared(PERF, 'm', [MULTI, 'M:name=single,size=16'], LONG),
    ...compared(PERF, 'd', [MULTI, 'D:size=16,think=1us'], LONG),
  },
  checks: [
    {
      what: 'rate of M_App_single, relative to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'm', mmps, 'single'),
      expect: atLeast(1.35),
    },
    {
      what: 'average latency of D, relative to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'd', avgUs, 'D'),
      expect: atMost(0.95),
    },
    {
      what: 'p99 latency of D, relative to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'd', p99Us, 'D'),
      expect: atMost(0.95),
    },
    {
      what: 'p99 latency of D, relative to bare, compared with the paper',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'd', p99Us, 'D'),
      expect: reported(0.78),
    },
    {
      what: 'rate of M_App_multi, relative to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'm', mmps, 'multi'),
      expect: reported('-'),
    },
  ],
};

const ALLOWED = [1, 2, 4, 8];

const APPS = ['B:size=1MiB', 'M:size=16,qps=8'];

const rate = (runs: Runs, allowed: number) => mmps(runs[`${allowed}`], 'M');

const qNumAllow: Claim = {
  id: 'q-num-allow',
  system: 'perf',
  part: 2,
  title: 'A larger QNum_allow returns its rate to M_App_multi',
  source: 'PeRF 5.2.3, fig. 10(d) to (f): comparable to bare',
  shows: ['perf-5.2.3-fig10def'],
  mixes: {
    bare: mix('cx6-100g', APPS, LONG),
    ...Object.fromEntries(
      ALLOWED.map((n) => [`${n}`, mix('cx6-100g', APPS, { ...LONG, policy: `perf:qNumAllow=${n}` })]),
    ),
  },
  checks: [
    {
      what: 'rate of 8 queue pairs with 8 allowed, relative to bare',
      unit: 'x',
      measure: (runs: Runs) => rate(runs, 8) / mmps(runs.bare, 'M'),
      expect: atLeast(0.9),
    },
    ...ALLOWED.slice(1).map((n) => ({
      what: 'rate of 8 queue pairs after doubling QNum_allow, relative to before',
      at: `${n} allowed`,
      unit: 'x',
      measure: (runs: Runs) => rate(runs, n) / rate(runs, n / 2),
      expect: rises(),
    })),
    ...ALLOWED.flatMap((n) => [
      {
        what: `rate of 8 queue pairs, ${n} allowed`,
        unit: 'Mmps',
        measure: (runs: Runs) => rate(runs, n),
        expect: reported('-'),
      },
      {
        what: `bandwidth of B, ${n} allowed`,
        unit: 'Gbps',
        measure: (runs: Runs) => gbps(runs[`${n}`], 'B'),
        expect: reported('-'),
      },
    ]),
  ],
};

export const CLAIMS: readonly Claim[] = [bMulti, mMultiBesideB, mMultiBesideSmall, qNumAllow];
