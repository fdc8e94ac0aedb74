import { avgUs, mmps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { equal, falls, range, rises } from '../../engine/expect.ts';

const M = 'M:name=fg,size=16';
const D = 'D:name=fg,size=16,think=1us';
/** In bytes; the first half up to the MTU of 4096. */
const UP_TO_MTU = [64, 256, 1024, 2048, 4096];
const BEYOND = [8192, 65536, 1 << 20, 1e9];
/** Batches in the background, as far as they are short. */
const background = (size: number) => `${size <= 65536 ? 'M' : 'B'}:name=bg,size=${size}B`;
const all = [...UP_TO_MTU, ...BEYOND];

export default {
  part: 3,
  title: 'A 16 B application gets slower as messages in the background grow, up to the MTU',
  source: 'PeRF 2.2, fig. 1(b), (c) (perf-2.2-fig1b-below-mtu, perf-2.2-fig1b-above-mtu, perf-2.2-fig1c)',
  mixes: Object.fromEntries(
    all.flatMap((size) => [
      [`m ${size}`, mix('cx6-100g', [M, background(size)])],
      [`d ${size}`, mix('cx6-100g', [D, background(size)])],
    ]),
  ),
  checks: [
    {
      what: 'rate beside 4096 B to rate beside 64 B',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs['m 4096'], 'fg') / mmps(runs['m 64'], 'fg'),
      expect: falls(),
    },
    {
      what: 'latency beside 4096 B to latency beside 64 B',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs['d 4096'], 'fg') / avgUs(runs['d 64'], 'fg'),
      expect: rises(),
    },
    ...UP_TO_MTU.slice(1).flatMap((size, i) => {
      const at = `${UP_TO_MTU[i]} to ${size} B`;
      return [
        {
          what: 'no step up to the MTU gives the rate back',
          at,
          unit: 'x',
          measure: (runs: Runs) => mmps(runs[`m ${size}`], 'fg') / mmps(runs[`m ${UP_TO_MTU[i]}`], 'fg'),
          expect: range(0, 1, 0.05),
        },
        {
          what: 'no step up to the MTU gives latency back',
          at,
          unit: 'x',
          measure: (runs: Runs) => avgUs(runs[`d ${size}`], 'fg') / avgUs(runs[`d ${UP_TO_MTU[i]}`], 'fg'),
          expect: rises(0.95),
        },
      ];
    }),
    ...BEYOND.flatMap((size) => [
      {
        what: 'rate beyond the MTU to rate at the MTU',
        at: `${size} B`,
        unit: 'x',
        measure: (runs: Runs) => mmps(runs[`m ${size}`], 'fg') / mmps(runs['m 4096'], 'fg'),
        expect: equal(0.05),
      },
      {
        what: 'latency beyond the MTU to latency at the MTU',
        at: `${size} B`,
        unit: 'x',
        measure: (runs: Runs) => avgUs(runs[`d ${size}`], 'fg') / avgUs(runs['d 4096'], 'fg'),
        expect: equal(0.05),
      },
    ]),
  ],
} satisfies Claim;
