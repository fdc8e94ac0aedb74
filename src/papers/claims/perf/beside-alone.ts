import { avgUs, gbps, mmps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { atLeast, atMost, reported } from '../../engine/expect.ts';

const LONG = { duration: '20ms', warmup: '2ms' };
const UNDER = { ...LONG, policy: 'perf' };
const [B, M, D, D_PAUSES] = ['B:size=1MiB', 'M:size=16', 'D:size=16', 'D:size=16,think=5us'];

const latency = (word: string) => (runs: Runs) =>
  avgUs(runs[`b d ${word}`], 'D') / avgUs(runs[`d ${word}`], 'D');

export default {
  part: 1,
  title: 'B_App beside D_App, and beside M_App, each against what it has alone',
  source: 'PeRF 5.2.2, fig. 8 (perf-5.2.2-fig8-perf): B 0.9 of alone, D about 1.5 of alone',
  note:
    'D_App posts one request at a time; the paper has no pauses. B and M together fill the wire: with 0.9 of its ' +
    'bandwidth for B there would be 11 M/s for M.',
  mixes: {
    b: mix('cx6-100g', B, LONG),
    m: mix('cx6-100g', M, LONG),
    'd no pause': mix('cx6-100g', D, LONG),
    'd pauses': mix('cx6-100g', D_PAUSES, LONG),
    'b d no pause': mix('cx6-100g', [B, D], UNDER),
    'b d pauses': mix('cx6-100g', [B, D_PAUSES], UNDER),
    'b m': mix('cx6-100g', [B, M], UNDER),
  },
  checks: [
    ...['no pause', 'pauses'].map((word) => ({
      what: 'bandwidth of B beside D to that alone',
      at: word,
      unit: 'x',
      measure: (runs: Runs) => gbps(runs[`b d ${word}`], 'B') / gbps(runs.b, 'B'),
      expect: atLeast(0.9),
    })),
    {
      what: 'average of D beside B to that alone',
      unit: 'x',
      measure: latency('no pause'),
      expect: atMost(1.5),
    },
    {
      what: 'average of D beside B to that alone, pauses of 5 us',
      unit: 'x',
      measure: latency('pauses'),
      expect: reported('1.5'),
    },
    {
      what: 'bandwidth of B beside M to that alone',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs['b m'], 'B') / gbps(runs.b, 'B'),
      expect: reported('0.9'),
    },
    {
      what: 'rate of M beside B to that alone',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs['b m'], 'M') / mmps(runs.m, 'M'),
      expect: reported('-'),
    },
  ],
} satisfies Claim;
