/** The rates that Justitia guarantees to bandwidth applications alongside latency applications. */

import { gauge, gbps, mean, unevenness } from '../../mix/metrics.ts';
import type { Check, Claim, Runs } from '../engine/claim.ts';
import { compared, factor, JUSTITIA } from '../engine/compared.ts';
import { atLeast, atMost, closedForm, equal, range } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';
import { b, CAP, d, judged, ofBoth, RULES, rulesWith, SETTLED } from './declared.ts';

/** No ConnectX meets it, so SafeUtil is the guaranteed rate. */
const UNREACHABLE = 'targetUs=0.5';

/** Applications, and the share of MaxRate that follows from their weights. Latency applications count as one by default. */
const MIXES: readonly { name: string; apps: string[]; share: number; options?: string }[] = [
  { name: '1 B and D', apps: [b(), d()], share: 1 / 2 },
  { name: '8 B and D', apps: [b('size=1MB,count=8'), d()], share: 8 / 9 },
  {
    name: '8 B and 8 D',
    apps: [b('size=1MB,count=8'), d('size=16,think=1us,count=8')],
    share: 8 / 9,
  },
  {
    name: '8 B and 8 D, counted by weight',
    apps: [b('size=1MB,count=8'), d('size=16,think=1us,count=8')],
    share: 8 / 16,
    options: 'latencyCounts=weight',
  },
  ...[1, 2, 4].map((weight) => ({
    name: `4 B of weight ${weight} and D`,
    apps: [b(`size=1MB,count=4,weight=${weight}`), d()],
    share: (4 * weight) / (4 * weight + 1),
  })),
];

const maxRate = (runs: Runs) => CAP * gbps(runs['b bare'], 'B');

const guaranteedRates: Claim = {
  id: 'guaranteed-rates',
  system: 'justitia',
  part: 1,
  title: 'Bandwidth applications get R_min while the latency target cannot be met',
  source: 'Justitia 4.3.1: R_min = (sum of w_B) / (sum of w_B + 1) of MaxRate',
  shows: ['justitia-4.3-params'],
  note:
    'The target of 0.5 us is below the latency of an idle device, so R_min is in force, and 40 ms are enough to fall to ' +
    'it. MaxRate is 0.97 of the bandwidth of one application on the bare device.',
  mixes: {
    ...compared(JUSTITIA, 'b', b(), { duration: '20ms', warmup: '2ms' }),
    ...Object.assign(
      {},
      ...MIXES.map(({ name, apps, options }) =>
        compared(rulesWith([UNREACHABLE, options].filter(Boolean).join(',')), name, apps, {
          ...SETTLED,
          gauges: true,
        }),
      ),
    ),
  },
  checks: [
    ...MIXES.flatMap(({ name, share }): Check[] =>
      judged(
        {
          what: `bandwidth of all B relative to MaxRate: ${name}`,
          unit: 'x',
          expect: closedForm(share, 0.03),
        },
        (runs, word) => gbps(runs[`${name} ${word}`], 'B') / maxRate(runs),
      ),
    ),
    ...MIXES.filter(({ name }) => !name.startsWith('1 ')).flatMap(({ name }) =>
      judged(
        {
          what: 'largest deviation of one B from the mean bandwidth',
          at: name,
          unit: '',
          expect: atMost(0.03),
        },
        (runs, word) => unevenness(runs[`${name} ${word}`], 'B'),
      ),
    ),
    ...judged(
      { what: 'SafeUtil relative to R_min, 1 B and D', unit: 'x', expect: equal(0.03) },
      (runs, word) => {
        const run = runs[`1 B and D ${word}`];
        return mean(gauge(run, 'safeUtil')) / mean(gauge(run, 'rMin'));
      },
    ),
    ...judged(
      { what: 'bandwidth of one B alone, relative to bare', unit: 'x', expect: atLeast(0.96) },
      (runs, word) => factor(runs, 'b', gbps, 'B', [word, 'bare']),
    ),
  ],
};

const DEVICES = ['cx3-56g', 'cx4-40g'];

const half: Claim = {
  id: 'half-beside-d',
  system: 'justitia',
  part: 1,
  title: 'A bandwidth application gets half of the capacity alongside a latency application',
  source: 'Justitia 6.1, fig. 11(b), with the target of 2 us',
  shows: ['justitia-6.1-fig11b', 'justitia-6-targets'],
  note: 'A p99 of 2 us cannot be reached on these devices alongside chunks of 5 KB, so R_min is in force.',
  mixes: Object.assign(
    {},
    ...DEVICES.flatMap((profile) => [
      { [`b ${profile}`]: mix(profile, b(), { duration: '10ms' }) },
      compared(RULES, profile, [b(), d()], { ...SETTLED, profile }),
    ]),
  ),
  checks: DEVICES.flatMap((profile) =>
    ofBoth(
      { what: 'bandwidth of B, relative to alone', at: profile, unit: 'x', expect: range(0.5, 0.5, 0.05) },
      (runs, word) => gbps(runs[`${profile} ${word}`], 'B') / gbps(runs[`b ${profile}`], 'B'),
    ),
  ),
};

export const CLAIMS: readonly Claim[] = [guaranteedRates, half];
