/** PeRF with many bandwidth tenants. */

import { avgUs, gbps, mmps, unevenness } from '../../mix/metrics.ts';
import type { Claim, Runs } from '../engine/claim.ts';
import { compared, factor, PERF } from '../engine/compared.ts';
import { atLeast, atMost, reported, rises } from '../engine/expect.ts';

const QPS = [1, 8];

const TENANTS = [2, 4, 8, 16];

const LONG = { duration: '18ms', warmup: '2ms' };

const MANY = TENANTS.flatMap((count) => QPS.map((qps) => ({ count, qps, name: `${count} x ${qps}` })));

const appsOf = (count: number, qps: number) => [`B:size=1MiB,count=${count},qps=${qps}`, 'M:size=16'];

const manyB: Claim = {
  id: 'many-b',
  system: 'perf',
  part: 5,
  title: 'Two to 16 B_Apps with 1 and with 8 queue pairs alongside M_App',
  source: 'Bounds of our own; the paper reports 87 Gbps and 9.7 Mmps for 1,000 B_Apps (thousand-b)',
  shows: ['perf-5.2.5-fig13a'],
  note: 'The measured time covers five rotations of 16 tenants.',
  mixes: Object.assign(
    {},
    ...MANY.flatMap(({ count, qps, name }) => [
      compared(PERF, `${name} M`, appsOf(count, qps), LONG),
      compared(PERF, `${name} D`, [...appsOf(count, qps), 'D:size=16,think=1us'], LONG),
    ]),
  ),
  checks: [
    ...MANY.flatMap(({ name }) => [
      {
        what: 'rate of M',
        at: name,
        unit: 'Mmps',
        measure: (runs: Runs) => mmps(runs[`${name} M perf`], 'M'),
        expect: atLeast(9.5),
      },
      {
        what: 'bandwidth of all B',
        at: name,
        unit: 'Gbps',
        measure: (runs: Runs) => gbps(runs[`${name} M perf`], 'B'),
        expect: atLeast(85),
      },
      {
        what: 'largest deviation of one B from the mean bandwidth',
        at: name,
        unit: '',
        measure: (runs: Runs) => unevenness(runs[`${name} M perf`], 'B'),
        expect: atMost(0.05),
      },
      {
        what: 'with D: average latency of D, relative to bare',
        at: name,
        unit: 'x',
        measure: (runs: Runs) => factor(runs, `${name} D`, avgUs, 'D'),
        expect: atMost(0.4),
      },
      {
        what: 'with D: bandwidth of all B',
        at: name,
        unit: 'Gbps',
        measure: (runs: Runs) => gbps(runs[`${name} D perf`], 'B'),
        expect: atLeast(85),
      },
    ]),
    ...MANY.filter(({ count }) => count >= 4).map(({ name }) => ({
      what: "rate of M relative to the paper's rule, which collapses",
      at: name,
      unit: 'x',
      measure: (runs: Runs) => factor(runs, `${name} M`, mmps, 'M', ['perf', 'paper']),
      expect: rises(2),
    })),
  ],
};

const THOUSAND_RUN = { duration: '12ms', warmup: '4ms' };

const thousandB: Claim = {
  id: 'thousand-b',
  system: 'perf',
  part: 5,
  title: '1,000 B_Apps with 1 and with 8 queue pairs alongside M_App',
  source: 'PeRF 5.2.5, fig. 13(a), and 4.4: 87 Gbps and 9.7 Mmps',
  shows: ['perf-5.2.5-fig13a', 'perf-4.4-scal'],
  note: 'A rotation of all tenants takes 200 ms, so fairness is shown with 16 tenants (many-b).',
  mixes: Object.assign(
    {},
    ...QPS.map((qps) =>
      compared(PERF, `${qps}`, [`B:size=1MiB,count=1000,qps=${qps}`, 'M:size=16'], THOUSAND_RUN),
    ),
  ),
  checks: QPS.flatMap((qps) => [
    {
      what: 'rate of M',
      at: `${qps} each`,
      unit: 'Mmps',
      measure: (runs: Runs) => mmps(runs[`${qps} perf`], 'M'),
      expect: atLeast(9.5),
    },
    {
      what: 'bandwidth of all B',
      at: `${qps} each`,
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs[`${qps} perf`], 'B'),
      expect: atLeast(85),
    },
    {
      what: `rate of M, the paper's rule, ${qps} each`,
      unit: 'Mmps',
      measure: (runs: Runs) => mmps(runs[`${qps} paper`], 'M'),
      expect: reported(9.7),
    },
  ]),
};

export const CLAIMS: readonly Claim[] = [manyB, thousandB];
