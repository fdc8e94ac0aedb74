import { mmps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { closedForm, range } from '../../engine/expect.ts';

const MANY = [9, 16, 32];

export default {
  part: 2,
  title: 'Messages per second of one queue pair, and of the device',
  source: 'PeRF 2.3.2 and its artefact (perf-2.3.2-capacity)',
  smoke: true,
  mixes: {
    one: mix('cx6-100g', 'M:size=16'),
    ...Object.fromEntries(
      MANY.map((n) => [`${n}`, mix('cx6-100g', `M:size=16,qps=${n}`, { duration: '2ms', warmup: '500us' })]),
    ),
  },
  checks: [
    {
      what: 'one queue pair',
      unit: 'M/s',
      measure: (runs: Runs) => mmps(runs.one, 'M'),
      expect: closedForm(12.4),
    },
    ...MANY.map((n) => ({
      what: '9 queue pairs or more',
      at: `${n}`,
      unit: 'M/s',
      measure: (runs: Runs) => mmps(runs[n], 'M'),
      expect: range(105, 112),
    })),
  ],
} satisfies Claim;
