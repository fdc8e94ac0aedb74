/** Palos divides the link by the weights of groups and queue pairs. */

import { share } from '../../mix/metrics.ts';
import type { MixResult } from '../../mix/result.ts';
import type { Claim } from '../engine/claim.ts';
import { closedForm, rises } from '../engine/expect.ts';
import { both, flowsIn, inEach, inForms, inGroup, share1or3 } from './forms.ts';

const sumOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);

const WEIGHTS = Array.from({ length: 16 }, (_, i) => 10 + i);
const QP_WEIGHTS = [2, 3];
const PAIRS = WEIGHTS.flatMap((weight) => QP_WEIGHTS.map((qpWeight) => ({ weight, qpWeight })));

/** Equation (1), for a group among these and a queue pair among QP_WEIGHTS. */
const equation1 = (weight: number, qpWeight: number, groups: readonly number[] = WEIGHTS) =>
  (weight / sumOf(groups)) * (qpWeight / sumOf(QP_WEIGHTS));

const nameOf = ({ weight, qpWeight }: (typeof PAIRS)[number]) => `g${weight}-${qpWeight}`;

const weightedGroups: Claim = {
  id: 'weighted-groups',
  system: 'palos',
  part: 4,
  title: '16 groups of weight 10 to 25 with queue pairs of weight 2 and 3: 32 shares',
  source: 'Palos V-C, fig. 10: exactly as equation (1) predicts',
  shows: ['palos-V.C-fig10', 'palos-V-summary-isolation'],
  note: 'At least 600 rounds. The bare device gives all queue pairs equal shares.',
  mixes: inForms(
    'all',
    PAIRS.map(
      (pair) =>
        `B:name=${nameOf(pair)},size=2MB,${inGroup(`g${pair.weight}`, pair.weight)},qpWeight=${pair.qpWeight}`,
    ),
    { duration: '11ms' },
  ),
  checks: [
    ...PAIRS.flatMap((pair) =>
      inEach(
        { what: 'share of a queue pair, relative to equation (1)', at: nameOf(pair), unit: 'x' },
        share1or3(1),
        (named) => share(named('all'), nameOf(pair)) / equation1(pair.weight, pair.qpWeight),
      ),
    ),
    ...PAIRS.flatMap((pair) =>
      inEach(
        { what: 'share of a queue pair, relative to an equal share', at: nameOf(pair), unit: 'x' },
        { bare: closedForm(1, 0.05) },
        (named) => share(named('all'), nameOf(pair)) * PAIRS.length,
      ),
    ),
  ],
};

const LEVELS = Array.from({ length: 32 }, (_, i) => i + 1);
const levelShare = (run: MixResult, level: number) => share(run, `level-${level}`);

const levels: Claim = {
  id: 'levels',
  system: 'palos',
  part: 4,
  title: '32 queue pairs of weight 1 to 32 in one group: 32 levels of performance',
  source: 'Palos V-C: at least 32 levels, where RDMA has 8 service levels',
  shows: ['palos-V.C-levels'],
  note: "Of the 32 shares in the paper's fig. 10, 4 are equal to others, because their products of weights are equal.",
  mixes: inForms(
    'all',
    LEVELS.map((level) => `B:name=level-${level},size=2MB,${inGroup('one')},qpWeight=${level}`),
    { duration: '11ms' },
    ['hardware', 'software'],
  ),
  checks: [
    ...LEVELS.flatMap((level) =>
      inEach(
        { what: 'share of a queue pair, relative to equation (1)', at: `weight ${level}`, unit: 'x' },
        share1or3(1),
        (named) => (levelShare(named('all'), level) * sumOf(LEVELS)) / level,
      ),
    ),
    ...LEVELS.slice(1).flatMap((level) =>
      inEach(
        { what: 'share of a level, relative to the level below', at: `weight ${level}`, unit: 'x' },
        both(rises(1)),
        (named) => levelShare(named('all'), level) / levelShare(named('all'), level - 1),
      ),
    ),
  ],
};

const SWEEP = [1, 2, 3, 4, 5, 6];
const queuePair = (n: number, group: string, weight: number) =>
  `B:name=qp${n},size=2MB,${inGroup(group)},qpWeight=${weight}`;

const groupShare = (run: MixResult, names: readonly string[]) => sumOf(names.map((name) => share(run, name)));

const weightInGroup: Claim = {
  id: 'weight-in-group',
  system: 'palos',
  part: 4,
  title: 'The weight of a queue pair affects shares within its group, but not the share of the other group',
  source: 'Palos V-C, fig. 11: both groups stay at 50 Gbps; queue pairs follow equation (1)',
  shows: ['palos-V-summary-isolation'],
  note: 'QP 6 changes, as in the caption of fig. 11; the text names QP 4.',
  smoke: true,
  mixes: Object.assign(
    {},
    ...SWEEP.map((weight) =>
      inForms(`${weight}`, [
        ...[1, 2, 3].map((n) => queuePair(n, 'a', 2)),
        queuePair(4, 'b', 3),
        queuePair(5, 'b', 2),
        queuePair(6, 'b', weight),
      ]),
    ),
  ),
  checks: SWEEP.flatMap((weight) => {
    const at = `weight ${weight}`;
    return [
      ...inEach(
        { what: 'share of the group whose weights stay', at, unit: '' },
        { ...share1or3(1 / 2), bare: closedForm(1 / 2, 0.05) },
        (named) => groupShare(named(`${weight}`), ['qp1', 'qp2', 'qp3']),
      ),
      ...[
        [4, 3],
        [5, 2],
        [6, weight],
      ].flatMap(([n, own]) =>
        inEach(
          { what: `share of QP ${n}, relative to equation (1)`, at, unit: 'x' },
          share1or3(1),
          (named) => (share(named(`${weight}`), `qp${n}`) * 2 * (5 + weight)) / own,
        ),
      ),
    ];
  }),
};

const GROUPS = Array.from({ length: 100 }, (_, i) => 10 + (i % 16));
const QPS_PER_WEIGHT = 50;
/**
 * At least 100 rounds of all these queue pairs. In software, a round is four times as long. In hardware, the smallest
 * chunks are shorter than a packet, so a share is exact to 1 % only after twice as many rounds.
 */
const MANY_ROUNDS = {
  hardware: { duration: '340ms', warmup: '40ms' },
  software: { duration: '560ms', warmup: '40ms' },
};
const MANY = GROUPS.flatMap((weight, i) => QP_WEIGHTS.map((qpWeight) => ({ i, weight, qpWeight })));

const manyQueuePairs: Claim = {
  id: 'many-queue-pairs',
  system: 'palos',
  part: 7,
  title: '10,000 queue pairs in 100 groups: shares by weight',
  source: 'Our own expectation: equation (1)',
  shows: [],
  note:
    'Groups of weight 10 to 25, each with 50 queue pairs of weight 2 and 50 of weight 3, which are summed. All contexts fit ' +
    'into the cache of the NIC. At least 100 rounds. The warm-up includes a gap in which the NIC reads the first 16 KiB of ' +
    'all queue pairs, on a bare device, too.',
  mixes: Object.fromEntries(
    (['hardware', 'software'] as const).map((form) => [
      `all ${form}`,
      flowsIn(
        form,
        MANY.map(
          ({ i, weight, qpWeight }) =>
            `B:name=g${i}-${qpWeight},size=64KB,depth=2,qps=${QPS_PER_WEIGHT},${inGroup(`g${i}`, weight)},qpWeight=${qpWeight}`,
        ),
        { ...MANY_ROUNDS[form], set: { qpcEntries: 'inf' } },
      ),
    ]),
  ),
  checks: MANY.flatMap(({ i, weight, qpWeight }) =>
    inEach(
      { what: 'share of 50 queue pairs, relative to equation (1)', at: `g${i}-${qpWeight}`, unit: 'x' },
      share1or3(1),
      (named) => share(named('all'), `g${i}-${qpWeight}`) / equation1(weight, qpWeight, GROUPS),
    ),
  ),
};

export const CLAIMS: readonly Claim[] = [weightedGroups, levels, weightInGroup, manyQueuePairs];
