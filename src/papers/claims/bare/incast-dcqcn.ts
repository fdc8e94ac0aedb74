import { drops, fairness, gbps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { range, reported } from '../../engine/expect.ts';

const SENDERS = [2, 32];

export default {
  part: 9,
  title: 'Many senders, one receiver, DCQCN: fair shares',
  source: 'DCQCN (SIGCOMM 2015); Jain index of the payload, after 50 ms',
  mixes: Object.fromEntries(
    SENDERS.map((n) => [
      `${n}`,
      mix('cx6-100g', `B:size=1MiB,count=${n},host=0-${n - 1},to=${n}`, {
        hosts: n + 1,
        set: { congestionControl: 'dcqcn' },
        duration: '100ms',
        warmup: '50ms',
      }),
    ]),
  ),
  checks: SENDERS.flatMap((n) => [
    {
      what: `fairness of ${n} to 1`,
      unit: '',
      measure: (runs: Runs) => fairness(runs[n], 'B'),
      expect: range(0.95, 1),
    },
    {
      what: `bandwidth of ${n} to 1`,
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs[n], 'B'),
      expect: reported('below 98.0'),
    },
    {
      what: 'packets lost',
      at: `${n} to 1`,
      unit: '',
      measure: (runs: Runs) => drops(runs[n]),
      expect: range(0, 0),
    },
  ]),
} satisfies Claim;
