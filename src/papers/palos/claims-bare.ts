/** Palos's claims about bare devices. */

import { avgUs, gbps, mmps, share } from '../../mix/metrics.ts';
import type { Claim, Runs } from '../engine/claim.ts';
import { closedForm, falls, ratio, reported } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';

const D = 'D:name=small,size=64,think=1us';

const FACTORS = [
  [16, 5],
  [24, 7.8],
] as const;

const cx5LatencyBesideLarge: Claim = {
  id: 'cx5-latency-beside-large',
  system: 'bare',
  part: 2,
  title: 'A small flow alongside many large ones on ConnectX-5',
  source: 'Palos II-B, fig. 3, and V-A, fig. 8',
  shows: ['palos-V.A-fig8-cx5', 'palos-II.B-fig3'],
  note: 'At MTU 4096. The pause prevents the small flow from synchronising with the rounds of the large flows.',
  mixes: {
    alone: mix('cx5-100g', D),
    ...Object.fromEntries(
      FACTORS.map(([n]) => [
        `${n}`,
        mix('cx5-100g', [`B:name=large,size=2MB,count=${n}`, D], { duration: '20ms' }),
      ]),
    ),
  },
  checks: [
    ...FACTORS.map(([n, factor]) => ({
      what: `latency alongside ${n} large flows, relative to alone`,
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs[n], 'small') / avgUs(runs.alone, 'small'),
      expect: ratio(factor),
    })),
    {
      what: 'latency alone (perftest: half a round trip)',
      unit: 'us',
      measure: (runs: Runs) => avgUs(runs.alone, 'small'),
      expect: reported(0.99),
    },
  ],
};

const POINTS = [64, 512, 4096].flatMap((size) => [1, 4].map((large) => [size, large] as const));

const palosModel: Claim = {
  id: 'palos-model',
  system: 'bare',
  part: 10,
  title: 'The packet round predicts the shares on a complete device model, not only on the ideal one',
  source: 'Palos II-B: L MTU / (L MTU + n s) within a few per cent',
  shows: ['palos-II.B-model'],
  mixes: Object.fromEntries(
    POINTS.map(([size, large]) => [
      `${size} ${large}`,
      mix('cx5-100g', [`B:name=large,size=1MiB,qps=${large}`, `M:name=small,size=${size}B,qps=16`]),
    ]),
  ),
  checks: POINTS.map(([size, large]) => ({
    what: 'share of the large flows alongside 16 small flows',
    at: `${large} large, ${size} B`,
    unit: '',
    measure: (runs: Runs) => share(runs[`${size} ${large}`], 'large'),
    expect: closedForm((large * 4096) / (large * 4096 + 16 * size), 0.05),
  })),
};

const LARGE = 'B:name=large,size=2MB';

const small = (size: number) => `M:name=small,size=${size}B,qps=16`;

const palosSmallAndLarge: Claim = {
  id: 'palos-small-and-large',
  system: 'bare',
  part: 10,
  title: '16 small flows and a large flow on ConnectX-5 both lose throughput',
  source: 'Palos II-B, fig. 2, and V-A, fig. 7',
  shows: ['palos-II.B-fig2-64B', 'palos-II.B-fig2-sweep', 'palos-V.A-fig7-cx5'],
  note: 'At MTU 4096. The text gives 0.058 % as the last value of fig. 7, where 5.8 % is meant: one share of 17.',
  mixes: {
    large: mix('cx5-100g', LARGE),
    small: mix('cx5-100g', small(64)),
    ...Object.fromEntries([64, 256, 4096].map((size) => [`${size}`, mix('cx5-100g', [LARGE, small(size)])])),
  },
  checks: [
    {
      what: 'large flow relative to its peak, small flows of 64 B',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs[64], 'large') / gbps(runs.large, 'large'),
      expect: ratio(0.67),
    },
    {
      what: 'small flows of 64 B relative to their peak',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[64], 'small') / mmps(runs.small, 'small'),
      expect: ratio(0.45),
    },
    {
      what: 'large flow relative to its peak, small flows of 256 B',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs[256], 'large') / gbps(runs.large, 'large'),
      expect: ratio(0.47),
    },
    {
      what: 'large flow relative to its peak, small flows of 4096 B',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs[4096], 'large') / gbps(runs.large, 'large'),
      expect: ratio(0.058),
    },
    {
      what: 'large flow, small flows of 4096 B relative to 64 B',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs[4096], 'large') / gbps(runs[64], 'large'),
      expect: falls(),
    },
  ],
};

export const CLAIMS: readonly Claim[] = [cx5LatencyBesideLarge, palosModel, palosSmallAndLarge];
