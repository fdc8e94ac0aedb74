import { avgUs, gbps, mmps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { atLeast, equal } from '../../engine/expect.ts';

const LONG = { duration: '10ms', warmup: '2ms' };
const [B, M] = ['B:size=1MiB', 'M:size=16'];
const D = 'D:size=16,think=1us';
/** What is said to harm nobody, by itself. */
const SMALL = { 'D of 8 queue pairs': `${D},qps=8`, 'M of one': M };

export default {
  part: 7,
  title:
    'D_App, of many queue pairs too, and M_App_single take little from others: what they post goes straight on',
  source: 'PeRF 3.4 (perf-3.4-small-impact): minimal impact, so that their requests bypass all isolation',
  note: 'Bare: what is claimed is why nothing of it needs to be held.',
  mixes: {
    b: mix('cx6-100g', B, LONG),
    m: mix('cx6-100g', `${M},name=other`, LONG),
    d: mix('cx6-100g', `${D},name=other`, LONG),
    ...Object.fromEntries(
      Object.entries(SMALL).flatMap(([name, small]) => [
        [`b, ${name}`, mix('cx6-100g', [B, small], LONG)],
        [`m, ${name}`, mix('cx6-100g', [`${M},name=other`, small], LONG)],
        [`d, ${name}`, mix('cx6-100g', [`${D},name=other`, small], LONG)],
      ]),
    ),
  },
  checks: Object.keys(SMALL).flatMap((name) => [
    {
      what: 'bandwidth of B to that alone',
      at: `beside ${name}`,
      unit: 'x',
      measure: (runs: Runs) => gbps(runs[`b, ${name}`], 'B') / gbps(runs.b, 'B'),
      expect: atLeast(0.95),
    },
    {
      what: 'rate of another M to that alone',
      at: `beside ${name}`,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[`m, ${name}`], 'other') / mmps(runs.m, 'other'),
      expect: equal(0.05),
    },
    {
      what: 'average of another D to that alone',
      at: `beside ${name}`,
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs[`d, ${name}`], 'other') / avgUs(runs.d, 'other'),
      expect: equal(0.1),
    },
  ]),
} satisfies Claim;
