/** PeRF's claims about bare devices: applications with one and with several queue pairs. */

import { avgUs, mmps, p99Us, spread } from '../../mix/metrics.ts';
import type { Claim, Runs } from '../engine/claim.ts';
import { equal, falls, rises } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';

const COUNTS = [2, 6, 16, 32];

const one = 'B:size=1MiB';

const many = 'B:size=1MiB,qps=8';

const M = 'M:size=16';

const D = 'D:size=16,think=1us';

const bMulti: Claim = {
  id: 'b-multi',
  system: 'bare',
  part: 6,
  title: 'B_App_multi (8 queue pairs) hurts M_App and D_App more than B_App_single does',
  source: 'PeRF 2.3.2',
  shows: ['perf-2.3.2-bmulti-vs-md'],
  mixes: {
    m: mix('cx6-100g', [one, M]),
    'm many': mix('cx6-100g', [many, M]),
    d: mix('cx6-100g', [one, D]),
    'd many': mix('cx6-100g', [many, D]),
  },
  checks: [
    {
      what: 'rate of M alongside many queue pairs, relative to one',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs['m many'], 'M') / mmps(runs.m, 'M'),
      expect: falls(),
    },
    {
      what: 'latency of D alongside many queue pairs, relative to one',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs['d many'], 'D') / avgUs(runs.d, 'D'),
      expect: rises(),
    },
  ],
};

const ONE_D = 'D:name=one,size=16,think=1us';

const mMultiAgainstD: Claim = {
  id: 'm-multi-against-d',
  system: 'bare',
  part: 6,
  title: 'M_App_multi hurts D_App only beyond the message rate of the device (9 queue pairs)',
  source: 'PeRF 2.3.2, fig. 3(c)',
  shows: ['perf-2.3.2-fig3c'],
  mixes: {
    alone: mix('cx6-100g', ONE_D),
    ...Object.fromEntries(
      COUNTS.map((n) => [
        `${n}`,
        mix('cx6-100g', [ONE_D, `M:name=many,size=16,qps=${n}`], {
          duration: '3ms',
          warmup: '500us',
        }),
      ]),
    ),
  },
  checks: COUNTS.flatMap((n) =>
    [avgUs, p99Us].map((latency) => ({
      what:
        n < 9
          ? `${latency === avgUs ? 'mean' : 'p99'} latency, relative to alone, below the device's message rate`
          : `${latency === avgUs ? 'mean' : 'p99'} latency, relative to alone, beyond the device's message rate`,
      at: `n = ${n}`,
      unit: 'x',
      measure: (runs: Runs) => latency(runs[n], 'one') / latency(runs.alone, 'one'),
      expect: n < 9 ? equal(latency === avgUs ? 0.1 : 0.2) : rises(),
    })),
  ),
};

const ONE_M = 'M:name=one,size=16';

const mMultiAgainstM: Claim = {
  id: 'm-multi-against-m',
  system: 'bare',
  part: 6,
  title: 'M_App_multi hurts M_App_single only beyond the message rate of the device (9 queue pairs)',
  source: 'PeRF 2.3.2, fig. 3(b)',
  shows: ['perf-2.3.2-fig3b'],
  smoke: true,
  mixes: {
    alone: mix('cx6-100g', ONE_M),
    ...Object.fromEntries(
      COUNTS.map((n) => [
        `${n}`,
        mix('cx6-100g', [ONE_M, `M:name=many,size=16,qps=${n}`], {
          duration: '2ms',
          warmup: '500us',
        }),
      ]),
    ),
  },
  checks: [
    ...COUNTS.map((n) => ({
      what:
        n < 9
          ? 'rate of M_App_single, relative to alone, below the message rate'
          : 'the same, beyond the message rate',
      at: `n = ${n}`,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[n], 'one') / mmps(runs.alone, 'one'),
      expect: n < 9 ? equal(0.05) : falls(),
    })),
    {
      what: 'rate of M_App_multi, 6 relative to 2 queue pairs',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[6], 'many') / mmps(runs[2], 'many'),
      expect: rises(),
    },
  ],
};

const COEXISTING_D = 'D:name=d,size=16,think=1us';

const COEXISTING_M = 'M:name=m,size=16';

const DEVICES = ['cx6-100g', 'cx4-40g'];

const smallApps: Claim = {
  id: 'small-apps',
  system: 'bare',
  part: 6,
  title: 'Applications with small messages do not hurt each other',
  source: 'PeRF 2.3.1, Justitia 3.1.2',
  shows: ['perf-2.3.1-m-vs-d', 'justitia-3.1.2-coexist'],
  mixes: Object.fromEntries(
    DEVICES.flatMap((profile) => [
      [`${profile} d`, mix(profile, COEXISTING_D)],
      [`${profile} m`, mix(profile, COEXISTING_M)],
      [`${profile} both`, mix(profile, [COEXISTING_D, COEXISTING_M])],
      [`${profile} 8 d`, mix(profile, `${COEXISTING_D},count=8`)],
      [`${profile} 8 m`, mix(profile, `${COEXISTING_M},count=8`)],
    ]),
  ),
  checks: DEVICES.flatMap((profile) => [
    {
      what: 'latency of D alongside M, relative to alone',
      at: profile,
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs[`${profile} both`], 'd') / avgUs(runs[`${profile} d`], 'd'),
      expect: equal(0.1),
    },
    {
      what: 'rate of M alongside D, relative to alone',
      at: profile,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[`${profile} both`], 'm') / mmps(runs[`${profile} m`], 'm'),
      expect: equal(0.05),
    },
    {
      what: 'latency of 8 D, relative to one',
      at: profile,
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs[`${profile} 8 d`], 'd') / avgUs(runs[`${profile} d`], 'd'),
      expect: equal(0.1),
    },
    {
      what: 'largest rate of 8 M, relative to the smallest',
      at: profile,
      unit: 'x',
      measure: (runs: Runs) => spread(runs[`${profile} 8 m`], 'm'),
      expect: equal(0.05),
    },
  ]),
};

export const CLAIMS: readonly Claim[] = [bMulti, mMultiAgainstD, mMultiAgainstM, smallApps];
