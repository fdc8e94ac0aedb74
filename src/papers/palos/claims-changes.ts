/** Weights and groups that change at run time, and queue pairs that have nothing to send. */

import { gbps, mean } from '../../mix/metrics.ts';
import type { MixResult } from '../../mix/result.ts';
import type { Claim } from '../engine/claim.ts';
import { atMost, closedForm, equal, reported } from '../engine/expect.ts';
import { both, flowsIn, inEach, inForms, inGroup, LINK_BYTES_PER_US, PACKETS, share1or3 } from './forms.ts';

/** Which steps of a timeline to measure, by number. */
type Steps = (step: number) => boolean;

/** The share of an application in the payload of these steps. Requires a run with gauges, which records a timeline. */
function shareIn({ timeline }: MixResult, name: string, steps: Steps): number {
  const apps = timeline?.apps ?? [];
  const meanOf = (app: (typeof apps)[number]) => mean(app.throughputGbps.filter((_, i) => steps(i)));
  const all = apps.reduce((sum, app) => sum + meanOf(app), 0);
  return apps.filter((app) => app.name === name).reduce((sum, app) => sum + meanOf(app), 0) / all;
}

// A run of 200 steps of 20 us. From step 20 on, the weight is high for 5 steps, and low for 5.
const STEP_US = 20;
const FIRST_STEP = 20;
const PHASE_STEPS = 5;
const CHANGES = 18;
const [LOW, HIGH] = [1, 4];
/** Queue pairs in each of two groups, of which one changes. */
const GROUP_QPS = 8;
const phaseOf = (step: number) => Math.floor((step - FIRST_STEP) / PHASE_STEPS);
const isHigh: Steps = (step) => step >= FIRST_STEP && phaseOf(step) % 2 === 0;
const isLow: Steps = (step) => step >= FIRST_STEP && phaseOf(step) % 2 === 1;
const dueShare = (weight: number) => weight / (weight + GROUP_QPS - 1) / 2;

const PHASES = Array.from({ length: 2 * CHANGES }, (_, i) => i);
const AT = PHASES.map(
  (i) => `${(FIRST_STEP + i * PHASE_STEPS) * STEP_US}us:set x qpWeight=${i % 2 === 0 ? HIGH : LOW}`,
);

/**
 * The mean time until the higher weight has its effect: the time for which the queue pair would have to be served as
 * before, and by its new weight in the rest of the phase, to get what it got.
 */
function delayUs(run: MixResult): number {
  const [before, after] = [LOW, HIGH].map(dueShare);
  return (PHASE_STEPS * STEP_US * (after - shareIn(run, 'x', isHigh))) / (after - before);
}

/** A round of chunks of one packet on the wire. */
const ROUND_US = (2 * GROUP_QPS * (PACKETS.mtuBytes + PACKETS.headerBytes)) / LINK_BYTES_PER_US;

const weightChange: Claim = {
  id: 'weight-change',
  system: 'palos',
  part: 5,
  title: 'A change of a weight while flows run takes effect within two rounds',
  source: 'Our own bounds: 2 rounds in hardware; 15 us in software, which is one window and a round trip',
  shows: [],
  note:
    '16 queue pairs in two groups. The weight of one changes between 1 and 4 every 100 us. The delay is the mean over 18 ' +
    'changes, and includes the path to the receiver.',
  mixes: inForms(
    'changes',
    [
      `B:name=x,size=2MB,${inGroup('a')}`,
      `B:name=a,size=2MB,qps=${GROUP_QPS - 1},${inGroup('a')}`,
      `B:name=b,size=2MB,qps=${GROUP_QPS},${inGroup('b')}`,
    ],
    { duration: '4ms', warmup: '400us', gauges: true, at: AT },
    ['hardware', 'software'],
  ),
  checks: [
    ...inEach(
      { what: 'delay until a higher weight has its effect', unit: 'rounds' },
      { hardware: atMost(2) },
      (named) => delayUs(named('changes')) / ROUND_US,
    ),
    ...inEach(
      { what: 'the same in microseconds', unit: 'us' },
      { hardware: reported('2 rounds'), software: atMost(15) },
      (named) => delayUs(named('changes')),
    ),
    ...inEach(
      { what: 'share of the other group with the higher weight, relative to the lower', unit: 'x' },
      both(equal(0.01)),
      (named) => shareIn(named('changes'), 'b', isHigh) / shareIn(named('changes'), 'b', isLow),
    ),
  ],
};

// Runs of 200 steps of 50 us, in which something changes at 5 ms.
const CHANGED = { duration: '10ms', warmup: '1ms', gauges: true };
const isBefore: Steps = (step) => step >= 20 && step < 100;
const isAfter: Steps = (step) => step >= 110;

const groupChange: Claim = {
  id: 'group-change',
  system: 'palos',
  part: 5,
  title: 'A queue pair that changes groups with requests in flight, and a group that changes its weight',
  source: 'Our own expectation: equation (1) before and after',
  shows: [],
  note: 'From 0.5 ms after the change on.',
  mixes: {
    ...inForms(
      'moves',
      [
        `B:name=x,size=2MB,${inGroup('a')}`,
        `B:name=a,size=2MB,qps=3,${inGroup('a')}`,
        `B:name=b,size=2MB,qps=4,${inGroup('b')}`,
      ],
      { ...CHANGED, at: ['5ms:set x group=b'] },
      ['hardware', 'software'],
    ),
    ...inForms(
      'weight',
      [`B:name=a,size=2MB,qps=4,${inGroup('a', 1)}`, `B:name=b,size=2MB,qps=4,${inGroup('b', 1)}`],
      { ...CHANGED, at: ['5ms:set b groupWeight=3'] },
      ['hardware', 'software'],
    ),
  },
  checks: [
    ...inEach({ what: 'share of the queue pair, before', unit: '' }, share1or3(1 / 8), (named) =>
      shareIn(named('moves'), 'x', isBefore),
    ),
    ...inEach({ what: 'share of the queue pair, after', unit: '' }, share1or3(1 / 10), (named) =>
      shareIn(named('moves'), 'x', isAfter),
    ),
    ...inEach({ what: 'share of the group that it has left, after', unit: '' }, share1or3(1 / 2), (named) =>
      shareIn(named('moves'), 'a', isAfter),
    ),
    ...inEach({ what: 'share of a group of weight 1, before', unit: '' }, share1or3(1 / 2), (named) =>
      shareIn(named('weight'), 'b', isBefore),
    ),
    ...inEach({ what: 'share of the group, of weight 3, after', unit: '' }, share1or3(3 / 4), (named) =>
      shareIn(named('weight'), 'b', isAfter),
    ),
  ],
};

const HALF_IDLE = [
  `B:name=a,size=2MB,qps=2,${inGroup('a')}`,
  `M:name=idle,size=64,qps=2,start=4999us,${inGroup('a')}`,
  `B:name=b,size=2MB,qps=4,${inGroup('b')}`,
];

const idleMembers: Claim = {
  id: 'idle-members',
  system: 'palos',
  part: 6,
  title:
    'A group half of which is idle gets half as much as a group that is not, or the same, depending on sums',
  source: 'Equation (2) over the queue pairs that are configured, or over those that are active',
  shows: [],
  note: 'Relative to another group of the same weight, all of which sends. The idle queue pairs begin in the last 1 us.',
  smoke: true,
  mixes: Object.fromEntries(
    (['configured', 'active'] as const).flatMap((sums) =>
      (['hardware', 'software'] as const).map((form) => [
        `${sums} ${form}`,
        flowsIn(form, HALF_IDLE, {}, { sums }),
      ]),
    ),
  ),
  checks: (['configured', 'active'] as const).flatMap((sums) =>
    inEach(
      { what: `throughput relative to a group that sends with all, sums ${sums}`, unit: 'x' },
      both(closedForm(sums === 'configured' ? 0.5 : 1, 0.01)),
      (named) => gbps(named(sums), 'a') / gbps(named(sums), 'b'),
    ),
  ),
};

export const CLAIMS: readonly Claim[] = [weightChange, groupChange, idleMembers];
