import { avgUs, mmps, spread } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { equal } from '../../engine/expect.ts';

const D = 'D:name=d,size=16,think=1us';
const M = 'M:name=m,size=16';
const DEVICES = ['cx6-100g', 'cx4-40g'];

export default {
  part: 6,
  title: 'Applications with small messages do not hurt each other',
  source: 'PeRF 2.3.1, Justitia 3.1.2 (perf-2.3.1-m-vs-d, justitia-3.1.2-coexist)',
  mixes: Object.fromEntries(
    DEVICES.flatMap((profile) => [
      [`${profile} d`, mix(profile, D)],
      [`${profile} m`, mix(profile, M)],
      [`${profile} both`, mix(profile, [D, M])],
      [`${profile} 8 d`, mix(profile, `${D},count=8`)],
      [`${profile} 8 m`, mix(profile, `${M},count=8`)],
    ]),
  ),
  checks: DEVICES.flatMap((profile) => [
    {
      what: 'latency of D beside M to its latency alone',
      at: profile,
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs[`${profile} both`], 'd') / avgUs(runs[`${profile} d`], 'd'),
      expect: equal(0.1),
    },
    {
      what: 'rate of M beside D to its rate alone',
      at: profile,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[`${profile} both`], 'm') / mmps(runs[`${profile} m`], 'm'),
      expect: equal(0.05),
    },
    {
      what: 'latency of 8 D to that of one',
      at: profile,
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs[`${profile} 8 d`], 'd') / avgUs(runs[`${profile} d`], 'd'),
      expect: equal(0.1),
    },
    {
      what: 'largest rate of 8 M to the smallest',
      at: profile,
      unit: 'x',
      measure: (runs: Runs) => spread(runs[`${profile} 8 m`], 'm'),
      expect: equal(0.05),
    },
  ]),
} satisfies Claim;
