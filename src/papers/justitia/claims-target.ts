/** Justitia's latency target: utilisation rises until the tail of the reference flow reaches it. */

import { gauge, gbps, mean, mmps, p50Us, p99Us, shareOf } from '../../mix/metrics.ts';
import type { MixResult } from '../../mix/result.ts';
import type { Check, Claim, Runs } from '../engine/claim.ts';
import { compared, factor, JUSTITIA } from '../engine/compared.ts';
import { atLeast, atMost, below, closedForm, type Expectation, equal, reported } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';
import { ARRIVALS, ARRIVING, b, CAP, d, judged, m, ofBoth, RULES, rulesWith, SETTLED } from './declared.ts';

/** The part of the time in which SafeUtil is R_min. */
function timeAtRMin(run: MixResult): number {
  const rMin = gauge(run, 'rMin');
  return shareOf(gauge(run, 'safeUtil'), (value, i) => value <= 1.01 * rMin[i]);
}

const estimateToTail = (run: MixResult) => mean(gauge(run, 'estimate')) / p99Us(run, 'D');

const safeUtil: Claim = {
  id: 'safe-util',
  system: 'justitia',
  part: 3,
  title: 'SafeUtil stays near MaxRate where the target of 2 us can be met',
  source: 'Justitia 4.3.3; the numbers are our own',
  shows: [],
  note:
    'From R_min, SafeUtil rises by 1 MB/s each 20 us and needs 120 ms to MaxRate, so 200 ms are not measured. The rules ' +
    'as printed halve SafeUtil every 20 us while the window has its bad samples, so they fall to R_min each time.',
  mixes: {
    b: mix('cx6-100g', b(), { duration: '10ms' }),
    ...compared(RULES, 'b d', [b(), d()], {
      duration: '300ms',
      warmup: '200ms',
      gauges: true,
    }),
  },
  checks: [
    ...judged(
      { what: 'mean SafeUtil, relative to MaxRate', unit: 'x', expect: atLeast(0.9) },
      // With one B and one D, R_min is half of MaxRate.
      (runs, word) => {
        const run = runs[`b d ${word}`];
        return mean(gauge(run, 'safeUtil')) / (2 * mean(gauge(run, 'rMin')));
      },
    ),
    ...judged(
      {
        what: 'R_min, relative to half of 0.97 of the bandwidth of B alone',
        unit: 'x',
        expect: closedForm(1, 0.03),
      },
      (runs, word) => mean(gauge(runs[`b d ${word}`], 'rMin')) / ((CAP / 2) * gbps(runs.b, 'B')),
    ),
    ...judged({ what: 'share of the time at R_min', unit: '', expect: below(0.05) }, (runs, word) =>
      timeAtRMin(runs[`b d ${word}`]),
    ),
    ...judged(
      { what: 'estimate, relative to the p99 latency of D', unit: 'x', expect: equal(0.1) },
      (runs, word) => estimateToTail(runs[`b d ${word}`]),
    ),
    ...judged(
      { what: 'bandwidth of B, relative to alone', unit: 'x', expect: reported('-') },
      (runs, word) => gbps(runs[`b d ${word}`], 'B') / gbps(runs.b, 'B'),
    ),
  ],
};

const belowFloor: Claim = {
  id: 'target-below-floor',
  system: 'justitia',
  part: 3,
  title: 'SafeUtil is R_min where the target of 2 us cannot be met',
  source: 'Justitia 4.3.3, on a device whose floor is 2.33 us',
  shows: ['justitia-6-targets'],
  note: 'Results of mixtures do not contain warnings: that there is exactly one is a test of the policy.',
  smoke: true,
  mixes: compared(RULES, 'b d', [b(), d()], { ...SETTLED, profile: 'cx4-40g', gauges: true }),
  checks: [
    ...judged({ what: 'mean SafeUtil, relative to R_min', unit: 'x', expect: equal(0.03) }, (runs, word) => {
      const run = runs[`b d ${word}`];
      return mean(gauge(run, 'safeUtil')) / mean(gauge(run, 'rMin'));
    }),
    ...judged({ what: 'share of the time at R_min', unit: '', expect: reported('all') }, (runs, word) =>
      timeAtRMin(runs[`b d ${word}`]),
    ),
  ],
};

const DEVICES = ['cx3-56g', 'cx4-40g'];

const RELAXED_US = 10;

const relaxed: Claim = {
  id: 'relaxed-target',
  system: 'justitia',
  part: 3,
  title: 'A target of 10 us is met, and utilisation is maximised',
  source: 'Justitia 6.1, fig. 12, a bandwidth application with 4 queue pairs',
  shows: ['justitia-6.1-fig12', 'justitia-6-targets'],
  note: 'From R_min to MaxRate, SafeUtil needs 70 ms at 56 Gbps, so 90 ms are not measured. MaxRate is 0.97 of the maximum, so 0.9 of the bandwidth alone counts as maximised.',
  mixes: Object.assign(
    {},
    ...DEVICES.flatMap((profile) => [
      { [`b ${profile}`]: mix(profile, b('size=1MB,qps=4'), { duration: '10ms' }) },
      compared(rulesWith(`targetUs=${RELAXED_US}`), profile, [b('size=1MB,qps=4'), d()], {
        profile,
        duration: '120ms',
        warmup: '90ms',
      }),
    ]),
  ),
  checks: DEVICES.flatMap((profile) => [
    ...ofBoth(
      { what: 'p99 latency of D', at: profile, unit: 'us', expect: atMost(RELAXED_US) },
      (runs, word) => p99Us(runs[`${profile} ${word}`], 'D'),
    ),
    ...ofBoth(
      { what: 'bandwidth of B, relative to alone', at: profile, unit: 'x', expect: atLeast(0.9) },
      (runs, word) => gbps(runs[`${profile} ${word}`], 'B') / gbps(runs[`b ${profile}`], 'B'),
    ),
  ]),
};

const besideM: Claim = {
  id: 'd-beside-m',
  system: 'justitia',
  part: 3,
  title: 'The overhead is negligible for a latency application alongside a throughput application',
  source: 'Justitia 6.1, fig. 14',
  shows: ['justitia-6.1-fig14'],
  note:
    'The throughput application gets R_min, half of its rate, until SafeUtil has risen, so 80 ms are not measured. Then ' +
    'MaxRate is 0.97 of the maximum, so 5 % less counts as negligible.',
  mixes: Object.assign(
    {},
    ...DEVICES.map((profile) =>
      compared(JUSTITIA, profile, [m(), d()], { profile, duration: '90ms', warmup: '80ms' }),
    ),
  ),
  checks: DEVICES.flatMap((profile) => [
    ...ofBoth(
      { what: 'rate of M, relative to bare', at: profile, unit: 'x', expect: equal(0.05) },
      (runs, word) => factor(runs, profile, mmps, 'M', [word, 'bare']),
    ),
    ...ofBoth(
      { what: 'median latency of D, relative to bare', at: profile, unit: 'x', expect: equal(0.1) },
      (runs, word) => factor(runs, profile, p50Us, 'D', [word, 'bare']),
    ),
  ]),
};

const HUGE = 'justitia:refCount=100000';

const PAPER_RULES = 'justitia:paper,refCount=10000';

/** The default, and a window of a tenth of it. */
const REF_COUNTS = [1000, 10_000];

const underArrivals = (policy: string) => ({ [policy]: mix('cx3-56g', ARRIVALS, { ...ARRIVING, policy }) });

const followed = (policy: string, expect: Expectation): Check => ({
  what: `estimate, relative to the p99 latency of D: ${policy}`,
  unit: 'x',
  measure: (runs: Runs) => estimateToTail(runs[policy]),
  expect,
});

const refCounts = REF_COUNTS.map((refCount) => `justitia:refCount=${refCount}`);

const arrivals: Claim = {
  id: 'arrivals',
  system: 'justitia',
  part: 3,
  title: 'The estimate follows within one window when bandwidth applications arrive',
  source: 'Justitia appendix D, fig. 39: it tracks the tail closely unless RefCount is huge',
  shows: ['justitia-D-fig39'],
  note:
    'Applications arrive after 0, 100, 200 and 300 ms, in the paper 1 s apart. The last 50 ms are measured, one window of ' +
    '200 ms after the last arrival. A window of 100,000 samples is 2 s, and the run ends before it is full.',
  mixes: Object.assign(
    {},
    ...['none', ...refCounts, HUGE, PAPER_RULES].map((policy) => underArrivals(policy)),
  ),
  checks: [
    ...refCounts.map((policy) => followed(policy, equal(0.1))),
    followed(HUGE, reported('farther')),
    followed(PAPER_RULES, reported('1')),
    ...refCounts.map((policy) => ({
      what: 'p99 latency of D, relative to bare',
      at: policy,
      unit: 'x',
      measure: (runs: Runs) => p99Us(runs[policy], 'D') / p99Us(runs.none, 'D'),
      expect: below(1),
    })),
  ],
};

export const CLAIMS: readonly Claim[] = [safeUtil, belowFloor, relaxed, besideM, arrivals];
