/** Justitia shares a device among bandwidth and throughput applications. */

import { gbps, gbpsSpread, mmps, spread } from '../../mix/metrics.ts';
import type { Check, Claim } from '../engine/claim.ts';
import { compared, factor, JUSTITIA } from '../engine/compared.ts';
import { atLeast, atMost, range } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';
import { b, judged, m, ofBoth, RULES } from './declared.ts';

/** Profiles, and the least part of the bare total that may remain. */
const DEVICES = [
  ['cx3-56g', 0.94],
  ['cx4-40g', 0.97],
  ['cx6-100g', 0.97],
] as const;

const LONG = { duration: '22ms', warmup: '2ms' };

const halves: Claim = {
  id: 'b-beside-m',
  system: 'justitia',
  part: 4,
  title: 'A bandwidth and a throughput application get half each of what they get alone',
  source: 'Justitia 6.1, fig. 15',
  shows: ['justitia-6.1-fig15a', 'justitia-6.1-fig15b'],
  note: 'MaxOps is the message rate of one queue pair; with the rate of the whole device, M would not be limited.',
  smoke: true,
  mixes: Object.assign(
    {},
    ...DEVICES.flatMap(([profile]) => [
      {
        [`b ${profile}`]: mix(profile, b(), LONG),
        [`m ${profile}`]: mix(profile, m(), LONG),
      },
      compared(RULES, profile, [b(), m()], { ...LONG, profile }),
    ]),
  ),
  checks: DEVICES.flatMap(([profile]) => [
    ...ofBoth(
      { what: 'bandwidth of B, relative to alone', at: profile, unit: 'x', expect: range(0.5, 0.5, 0.03) },
      (runs, word) => gbps(runs[`${profile} ${word}`], 'B') / gbps(runs[`b ${profile}`], 'B'),
    ),
    ...ofBoth(
      { what: 'rate of M, relative to alone', at: profile, unit: 'x', expect: range(0.5, 0.5, 0.03) },
      (runs, word) => mmps(runs[`${profile} ${word}`], 'M') / mmps(runs[`m ${profile}`], 'M'),
    ),
  ]),
};

/** Bandwidth applications that differ, by the name of the mixture. */
const UNEQUAL = {
  'messages of 64 KB, 1 MB and 1 GB': ['64KB', '1MB', '1GB'].map((size) => b(`name=B.${size},size=${size}`)),
  'messages of 1 MB and 1 GB, one outstanding': ['1MB', '1GB'].map((size) =>
    b(`name=B.${size},size=${size},depth=1`),
  ),
  '1 and 16 queue pairs': [b('name=B.one,size=1MB'), b('name=B.many,size=1MB,qps=16')],
};

const COUNTS = [2, 8, 32];

const LINK_GBPS = { 'cx3-56g': 56, 'cx4-40g': 40, 'cx6-100g': 100 } as const;

const TOKEN_MBIT = 8;

/** A window in which each of `count` applications gets 26 tokens of 1 MB, so that one more or less is 4 %. */
const rounds = (count: number, profile: keyof typeof LINK_GBPS) => {
  const windowMs = Math.max(20, Math.ceil((26 * count * TOKEN_MBIT) / LINK_GBPS[profile]));
  return { profile, duration: `${windowMs + 2}ms`, warmup: '2ms' };
};

/** The largest rate relative to the smallest, and the sum relative to bare, of all applications named B. */
function sharesOf(name: string, profile: string, least: number): Check[] {
  const at = `${name}, ${profile}`;
  return [
    ...judged(
      { what: 'largest bandwidth of a B, relative to the smallest', at, unit: 'x', expect: atMost(1.05) },
      (runs, word) => gbpsSpread(runs[`${at} ${word}`], 'B'),
    ),
    ...judged(
      {
        what: `bandwidth of all B, relative to bare, ${profile}`,
        at: name,
        unit: 'x',
        expect: atLeast(least),
      },
      (runs, word) => factor(runs, at, gbps, 'B', [word, 'bare']),
    ),
  ];
}

const unequalB: Claim = {
  id: 'unequal-b',
  system: 'justitia',
  part: 4,
  title: 'Bandwidth applications get equal shares, whatever their message sizes and numbers of queue pairs',
  source: 'Justitia 6.1, fig. 13: at a cost below 6 % (InfiniBand) and 2 % (RoCEv2)',
  shows: ['justitia-6.1-fig13'],
  note: 'An application with one message outstanding waits for its completion before it posts the next, also under the policy.',
  mixes: Object.assign(
    {},
    ...DEVICES.flatMap(([profile]) =>
      Object.entries(UNEQUAL).map(([name, apps]) =>
        compared(JUSTITIA, `${name}, ${profile}`, apps, { ...LONG, profile }),
      ),
    ),
  ),
  checks: DEVICES.flatMap(([profile, least]) =>
    Object.keys(UNEQUAL).flatMap((name) => sharesOf(name, profile, least)),
  ),
};

const manyB: Claim = {
  id: 'many-b',
  system: 'justitia',
  part: 4,
  title: '2 to 32 bandwidth applications get equal shares of almost the whole link',
  source: 'Justitia 6.2, fig. 17(a)',
  shows: ['justitia-6.2-fig17a'],
  note: 'Without latency applications, tokens have 1 MB, and each application gets at least 26 in the measured time.',
  mixes: Object.assign(
    {},
    ...DEVICES.flatMap(([profile]) =>
      COUNTS.map((count) =>
        compared(JUSTITIA, `${count} B, ${profile}`, b(`size=1MB,count=${count}`), rounds(count, profile)),
      ),
    ),
  ),
  checks: DEVICES.flatMap(([profile, least]) =>
    COUNTS.flatMap((count) => sharesOf(`${count} B`, profile, least)),
  ),
};

const manyApps = (count: number) => m(`size=16,batch=64,count=${count}`);

const { bare } = JUSTITIA;

const THROUGHPUT_APPS = Object.assign(
  {},
  ...DEVICES.flatMap(([profile]) =>
    COUNTS.map((count) => compared(RULES, `${count} M, ${profile}`, manyApps(count), rounds(count, profile))),
  ),
);

const manyM: Claim = {
  id: 'many-m',
  system: 'justitia',
  part: 4,
  title: '2 to 32 throughput applications send equal numbers of messages',
  source: 'Justitia 6.2, fig. 17(b): roughly equal',
  shows: ['justitia-6.2-fig17b'],
  mixes: THROUGHPUT_APPS,
  checks: DEVICES.flatMap(([profile]) =>
    COUNTS.flatMap((count) =>
      judged(
        {
          what: 'largest message rate of an M, relative to the smallest',
          at: `${count} M, ${profile}`,
          unit: 'x',
          expect: atMost(1.05),
        },
        (runs, word) => spread(runs[`${count} M, ${profile} ${word}`], 'M'),
      ),
    ),
  ),
};

const manyMTotal: Claim = {
  id: 'many-m-total',
  system: 'justitia',
  part: 4,
  title: '2 to 32 throughput applications together send as many messages as on the bare device',
  source: 'A bound of our own; the paper does not state the total of fig. 17(b)',
  shows: [],
  note:
    'This contradicts b-beside-m if tokens also limit throughput applications among themselves: several queue pairs send ' +
    'more messages than MaxOps, which is the rate of one.',
  mixes: {
    ...THROUGHPUT_APPS,
    ...Object.assign(
      {},
      ...DEVICES.flatMap(([profile]) =>
        COUNTS.map((count) => compared({ bare }, `${count} M, ${profile}`, manyApps(count), { profile })),
      ),
    ),
  },
  checks: DEVICES.flatMap(([profile, least]) =>
    COUNTS.flatMap((count) =>
      judged(
        {
          what: `rate of all M, relative to bare, ${profile}`,
          at: `${count} M`,
          unit: 'x',
          expect: atLeast(least),
        },
        (runs, word) => factor(runs, `${count} M, ${profile}`, mmps, 'M', [word, 'bare']),
      ),
    ),
  ),
};

export const CLAIMS: readonly Claim[] = [halves, unequalB, manyB, manyM, manyMTotal];
