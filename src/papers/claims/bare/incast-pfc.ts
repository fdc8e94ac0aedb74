import { drops, fairness, gbps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { closedForm, range } from '../../engine/expect.ts';

const SENDERS = [2, 32];
const MTU = 4096;

export default {
  part: 9,
  title: 'Many senders, one receiver, pauses and no congestion control: nothing is lost',
  source: 'IEEE 802.1Qbb; bandwidth: all of the link but headers',
  mixes: Object.fromEntries(
    SENDERS.map((n) => [
      `${n}`,
      mix('cx6-100g', `B:size=1MiB,count=${n},host=0-${n - 1},to=${n}`, {
        hosts: n + 1,
        duration: '20ms',
        warmup: '2ms',
      }),
    ]),
  ),
  checks: SENDERS.flatMap((n) => [
    {
      what: 'packets lost',
      at: `${n} to 1`,
      unit: '',
      measure: (runs: Runs) => drops(runs[n]),
      expect: range(0, 0),
    },
    {
      what: 'bandwidth',
      at: `${n} to 1`,
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs[n], 'B'),
      expect: closedForm((100 * MTU) / (MTU + 82)),
    },
    {
      what: 'fairness',
      at: `${n} to 1`,
      unit: '',
      measure: (runs: Runs) => fairness(runs[n], 'B'),
      expect: range(0.95, 1),
    },
  ]),
} satisfies Claim;
