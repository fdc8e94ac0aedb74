import { mmps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { closedForm } from '../../engine/expect.ts';

export default {
  part: 2,
  title: 'Operations per second of the whole device',
  source: 'SMART (ASPLOS 2024), Husky (NSDI 2023): 111 M READs, 5 M atomics',
  mixes: {
    read: mix('cx6-100g', 'M:op=read,size=16,qps=32', { duration: '2ms', warmup: '500us' }),
    atomic: mix('cx6-100g', 'M:op=atomic,qps=16'),
  },
  checks: [
    {
      what: 'READ',
      unit: 'M/s',
      measure: (runs: Runs) => mmps(runs.read, 'M'),
      expect: closedForm(111, 0.05),
    },
    { what: 'atomics', unit: 'M/s', measure: (runs: Runs) => mmps(runs.atomic, 'M'), expect: closedForm(5) },
  ],
} satisfies Claim;
