/** Justitia isolates latency applications from bandwidth applications. */

import { gbps, p50Us, p99Us } from '../../mix/metrics.ts';
import type { Check, Claim, Runs } from '../engine/claim.ts';
import { compared, JUSTITIA } from '../engine/compared.ts';
import { atLeast, atMost, below, falls, range, reported } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';
import { b, d, judged, ofBoth, ratesOfB, SETTLED } from './declared.ts';

const DEVICES = ['cx3-56g', 'cx4-40g', 'cx6-100g'];

type Latency = typeof p50Us;
const LATENCIES: readonly (readonly [name: string, of: Latency])[] = [
  ['median', p50Us],
  ['p99', p99Us],
];

const dBesideB: Claim = {
  id: 'd-beside-b',
  system: 'justitia',
  part: 2,
  title: 'A latency application alongside a bandwidth application waits little longer than alone',
  source: 'Justitia 6.1, fig. 11(a): both latencies improve significantly; the bounds are our own',
  shows: ['justitia-6.1-fig11a'],
  note: 'The paper plots fig. 11 without stating values.',
  mixes: Object.assign(
    {},
    ...DEVICES.flatMap((profile) => [
      { [`d ${profile}`]: mix(profile, d()) },
      compared(JUSTITIA, profile, [b(), d()], { ...SETTLED, profile }),
    ]),
  ),
  checks: DEVICES.flatMap((profile): Check[] => [
    ...LATENCIES.flatMap(([name, of]) => [
      ...judged(
        {
          what: `${name} latency of D, relative to alone`,
          at: profile,
          unit: 'x',
          expect: atMost(of === p50Us ? 1.3 : 2),
        },
        (runs, word) => of(runs[`${profile} ${word}`], 'D') / of(runs[`d ${profile}`], 'D'),
      ),
      {
        what: `${name} latency of D, relative to alone, bare, ${profile}`,
        unit: 'x',
        measure: (runs: Runs) => of(runs[`${profile} bare`], 'D') / of(runs[`d ${profile}`], 'D'),
        expect: reported('1.8 to 4.4'),
      },
      ...ofBoth(
        { what: `${name} latency of D, relative to bare`, at: profile, unit: 'x', expect: falls() },
        (runs, word) => of(runs[`${profile} ${word}`], 'D') / of(runs[`${profile} bare`], 'D'),
      ),
    ]),
  ]),
};

const EIGHT_B = ['1MB', '10MB', '100MB', '1GB'].map((size) => b(`name=B.${size},size=${size},count=2`));

const [MEDIAN, P99] = [2.7, 6.3];

const manyCompetitors: Claim = {
  id: 'many-competitors',
  system: 'justitia',
  part: 2,
  title: '8 latency applications alongside 8 bandwidth applications with messages of 1 MB to 1 GB',
  source:
    'Justitia 6.4, fig. 23: the latencies are 71.4 and 79.8 times those alone on the bare device, and improve 26.5 and 12.7 times',
  shows: [],
  mixes: {
    d: mix('cx3-56g', d()),
    ...compared(JUSTITIA, 'all', [...EIGHT_B, d('size=16,think=1us,count=8')], {
      profile: 'cx3-56g',
      duration: '60ms',
      warmup: '20ms',
    }),
  },
  checks: [
    ...LATENCIES.flatMap(([name, of]): Check[] => [
      ...judged(
        {
          what: `${name} latency of D, relative to one alone`,
          unit: 'x',
          expect: atMost(of === p50Us ? MEDIAN : P99),
        },
        (runs, word) => of(runs[`all ${word}`], 'D') / of(runs.d, 'D'),
      ),
      {
        what: `${name} latency of D, relative to one alone, bare`,
        unit: 'x',
        measure: (runs) => of(runs['all bare'], 'D') / of(runs.d, 'D'),
        expect: reported(of === p50Us ? 71.4 : 79.8),
      },
    ]),
    ...judged(
      { what: 'bandwidth of all B, relative to bare', unit: 'x', expect: atLeast(0.85) },
      (runs, word) => gbps(runs[`all ${word}`], 'B') / gbps(runs['all bare'], 'B'),
    ),
    {
      what: 'smallest bandwidth of a B, relative to the mean',
      unit: 'x',
      measure: (runs) => {
        const rates = ratesOfB(runs['all justitia']);
        return (Math.min(...rates) * rates.length) / gbps(runs['all justitia'], 'B');
      },
      expect: reported('equal shares'),
    },
  ],
};

const SIZES = [16, 64, 256, 1024, 4096];

const messageSizes: Claim = {
  id: 'message-sizes-of-d',
  system: 'justitia',
  part: 2,
  title: 'Latency applications of various message sizes are isolated from a bandwidth application',
  source:
    'Justitia 6.2, fig. 18: isolated over a wide range; the bandwidth application gets half in all cases',
  shows: ['justitia-6.2-fig18'],
  note: 'The paper plots the latencies without stating values, so only their direction is expected.',
  mixes: {
    b: mix('cx3-56g', b(), { duration: '10ms' }),
    ...Object.assign(
      {},
      ...SIZES.map((bytes) =>
        compared(JUSTITIA, `${bytes} B`, [b(), d(`size=${bytes},think=1us`)], {
          ...SETTLED,
          profile: 'cx3-56g',
        }),
      ),
    ),
  },
  checks: SIZES.flatMap((bytes) => [
    ...ofBoth(
      {
        what: 'bandwidth of B, relative to alone',
        at: `${bytes} B`,
        unit: 'x',
        expect: range(0.5, 0.5, 0.05),
      },
      (runs, word) => gbps(runs[`${bytes} B ${word}`], 'B') / gbps(runs.b, 'B'),
    ),
    ...LATENCIES.flatMap(([name, of]) =>
      ofBoth(
        { what: `${name} latency of D, relative to bare`, at: `${bytes} B`, unit: 'x', expect: below(1) },
        (runs, word) => of(runs[`${bytes} B ${word}`], 'D') / of(runs[`${bytes} B bare`], 'D'),
      ),
    ),
  ]),
};

export const CLAIMS: readonly Claim[] = [dBesideB, manyCompetitors, messageSizes];
