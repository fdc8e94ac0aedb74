/** Palos isolates groups from each other. */

import { gbps, mmps } from '../../mix/metrics.ts';
import type { Claim, Runs } from '../engine/claim.ts';
import { atLeast, closedForm, equal, rises } from '../engine/expect.ts';
import { packetRoundGrowth } from './closed-form.ts';
import { flows, inEach, inForms, inGroup, LARGE_BYTES, large, PACKETS, small } from './forms.ts';

const SMALL_BYTES = 64;
const MORE = [2, 4, 8];
const COUNTS = [1, ...MORE];
/** As shares in closed form: within 1 % in hardware, and within 3 % in software. */
const UNMOVED = { hardware: equal(0.01), software: equal(0.03) };

const apps = (count: number, keysOfA = '', keysOfB = '') => [
  large(`${inGroup('b')}${keysOfB}`, count),
  small(SMALL_BYTES, `${inGroup('a')}${keysOfA}`),
];

/** Message rate of the small flows in group A alongside `count` large flows in group B, relative to one. */
const growthOfA = (runs: Runs, count: number, word: string) =>
  mmps(runs[`${count} ${word}`], 'small') / mmps(runs[`1 ${word}`], 'small');

/** The same for the throughput of the large flows in group B. */
const growthOfB = (runs: Runs, count: number, word: string) =>
  gbps(runs[`${count} ${word}`], 'large') / gbps(runs[`1 ${word}`], 'large');

const bareGrowth = (count: number) =>
  packetRoundGrowth(
    { small: { count: 16, bytes: SMALL_BYTES }, large: { count, bytes: LARGE_BYTES } },
    PACKETS,
  );

const groupIsolation: Claim = {
  id: 'group-isolation',
  system: 'palos',
  part: 3,
  title: '16 small flows in one group and 1 to 8 large flows in another do not affect each other',
  source:
    'Palos V-B, fig. 9: without QoS, group A falls to 10 % and group B rises to 155 %; virtual lanes and chunks of 25 KB ' +
    'protect group A, but not optimally',
  shows: ['palos-V.B-fig9-qos', 'palos-V-summary-isolation'],
  note:
    'Relative to alongside one large flow. Bare: the packet round, headers included. Virtual lanes are hardware queues ' +
    'with equal weights. The policy chunk cuts messages into 25 KB, of which each queue pair has one outstanding.',
  mixes: Object.assign(
    {},
    ...COUNTS.flatMap((count) => [
      inForms(`${count}`, apps(count)),
      {
        [`${count} lanes`]: flows(apps(count, ',class=0', ',class=1'), {
          set: { scheduler: 'ets', etsWeights: '1,1' },
        }),
        [`${count} chunks`]: flows(apps(count), { policy: 'chunk' }),
      },
    ]),
  ),
  checks: [
    ...MORE.flatMap((count) => [
      ...inEach(
        { what: 'message rate of group A, relative to one large flow', at: `${count} large`, unit: 'x' },
        { ...UNMOVED, bare: closedForm(bareGrowth(count).small, 0.05) },
        (named) => mmps(named(`${count}`), 'small') / mmps(named('1'), 'small'),
      ),
      ...inEach(
        { what: 'throughput of group B, relative to one large flow', at: `${count} large`, unit: 'x' },
        { ...UNMOVED, bare: closedForm(bareGrowth(count).large, 0.05) },
        (named) => gbps(named(`${count}`), 'large') / gbps(named('1'), 'large'),
      ),
    ]),
    ...[
      ['lanes', 'virtual lanes'],
      ['chunks', 'chunks of 25 KB'],
    ].flatMap(([word, name]) => [
      {
        what: `message rate of group A alongside 8 large flows, ${name} relative to bare`,
        unit: 'x',
        measure: (runs: Runs) => growthOfA(runs, 8, word) / growthOfA(runs, 8, 'bare'),
        expect: rises(),
      },
      ...(['hardware', 'software'] as const).map((form) => ({
        what: `message rate of group A alongside 8 large flows, relative to ${name}`,
        form,
        unit: 'x',
        measure: (runs: Runs) => growthOfA(runs, 8, form) / growthOfA(runs, 8, word),
        expect: atLeast(form === 'hardware' ? 0.99 : 0.97),
      })),
      {
        what: `throughput of group B alongside 8 large flows, bare relative to ${name}`,
        unit: 'x',
        measure: (runs: Runs) => growthOfB(runs, 8, 'bare') / growthOfB(runs, 8, word),
        expect: rises(),
      },
    ]),
  ],
};

export const CLAIMS: readonly Claim[] = [groupIsolation];
