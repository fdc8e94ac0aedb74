/** PeRF with messages of different sizes, and with nothing to isolate. */

import { avgUs, gbps, mmps, p99Us } from '../../mix/metrics.ts';
import type { MixResult } from '../../mix/result.ts';
import type { Claim, Runs } from '../engine/claim.ts';
import { compared, factor, PERF, type Policies } from '../engine/compared.ts';
import { atLeast, equal, falls, range, reported, rises } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';

const D = 'D:size=16,think=1us';
const LONG = { duration: '10ms', warmup: '2ms' };
const POLICIES: Policies = { bare: 'none', perf: 'perf' };
const B = 'B:size=1MiB';
const M = 'M:size=16';

const OTHER_D = 'D:name=other,size=16,think=1us';

/** The paper's window of one second is longer than these runs. */
const POLICY = 'perf:windowNs=1e6,samplePeriodNs=1e5';

const CLASSIFIED = { duration: '6ms', warmup: '2ms', policy: POLICY };

/** Applications with the kind that the classifier must report. */
const APPS = {
  'mean of 1 KiB': ['B:name=it,size=1024', 'B_single'],
  'mean below 1 KiB, 64 outstanding': ['M:name=it,size=1023,depth=64', 'M_single'],
  'sizes of 512 B to 4 KiB': ['B:name=it,size=512-4096', 'B_single'],
  'more than 5 outstanding': ['M:name=it,size=16,batch=1,depth=6', 'M_single'],
  '5 outstanding': ['M:name=it,size=16,batch=1,depth=5', 'D_single'],
  'large, 4 queue pairs': ['B:name=it,size=64KiB,qps=4', 'B_multi'],
  'small, 4 queue pairs': ['M:name=it,size=16,qps=4', 'M_multi'],
} as const;

/** One tenant whose traffic changes after 2 ms. */
const CHANGING = ['B:name=it,size=1MiB,stop=2ms', 'M:name=then,tenant=it,size=16,start=2ms'];

/** The share of the tenant's contexts that are classified as `kind` at the end. */
function classifiedAs({ policyStates = [] }: MixResult, kind: string): number {
  const its = policyStates.filter(({ tenant }) => tenant === 'it');
  return its.length === 0 ? 0 : its.filter((state) => state.kind === kind).length / its.length;
}

const classifier: Claim = {
  id: 'classifier',
  system: 'perf',
  part: 7,
  title:
    'Applications with one and with several queue pairs are classified as B, M or D, again when their traffic changes',
  source: 'PeRF 3.3; the code of the paper never revises a classification',
  shows: ['perf-3.3-params-classifier'],
  note: 'The value is the share of contexts with the expected kind.',
  mixes: {
    ...Object.fromEntries(
      Object.entries(APPS).map(([name, [app]]) => [name, mix('cx6-100g', [app, OTHER_D], CLASSIFIED)]),
    ),
    changing: mix('cx6-100g', [...CHANGING, OTHER_D], { ...CLASSIFIED, warmup: '1ms' }),
  },
  checks: [
    ...Object.entries(APPS).map(([name, [, kind]]) => ({
      what: `${name}: ${kind}`,
      unit: '',
      measure: (runs: Runs) => classifiedAs(runs[name], kind),
      expect: range(1, 1),
    })),
    {
      what: 'large messages until 2 ms, then small messages: M_single at the end',
      unit: '',
      measure: (runs: Runs) => classifiedAs(runs.changing, 'M_single'),
      expect: range(1, 1),
    },
  ],
};

/** Datagrams are not split into pieces. */
const DATAGRAMS = 'B:name=ud,size=4096,op=send,transport=ud,qps=8';

const limits: Claim = {
  id: 'limits',
  system: 'perf',
  part: 7,
  title: 'What the paper leaves as future work: atomics, and UD queue pairs',
  source: 'PeRF appendix D',
  shows: ['perf-D-limits'],
  note: 'Completion events are covered by the conformance tests.',
  mixes: {
    ...compared(POLICIES, 'atomic M', [B, 'M:op=atomic'], LONG),
    ...compared(POLICIES, 'atomic D', [B, 'D:op=atomic,think=1us'], LONG),
    ...compared(POLICIES, 'ud M', [B, 'M:size=16,op=send,transport=ud'], LONG),
    ...compared(POLICIES, 'ud D', [DATAGRAMS, D], LONG),
    ...compared(POLICIES, 'ud B', [DATAGRAMS, 'B:name=single,size=1MiB'], LONG),
    ...compared(POLICIES, 'ud deep B', [`${DATAGRAMS},depth=64,batch=16`, 'B:name=single,size=1MiB'], LONG),
    alone: mix('cx6-100g', DATAGRAMS, { ...LONG, policy: 'perf' }),
    'alone bare': mix('cx6-100g', DATAGRAMS, LONG),
  },
  checks: [
    {
      what: 'atomic rate of M alongside B, relative to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'atomic M', mmps, 'M'),
      expect: rises(),
    },
    {
      what: 'average atomic latency of D alongside B, relative to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'atomic D', avgUs, 'D'),
      expect: falls(),
    },
    {
      what: 'datagram rate of M alongside B, relative to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'ud M', mmps, 'M'),
      expect: rises(2),
    },
    {
      what: 'average latency of D alongside 4 KiB datagrams of 8 queue pairs, relative to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'ud D', avgUs, 'D'),
      expect: falls(),
    },
    {
      what: 'datagram bandwidth of 8 queue pairs relative to B_App_single, 64 outstanding',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs['ud deep B perf'], 'ud') / gbps(runs['ud deep B perf'], 'single'),
      expect: equal(0.2),
      deviation: 'the first run had 4 outstanding: the only queue pair that sends gets 16 KiB per round trip',
    },
    {
      what: 'datagram bandwidth of 8 queue pairs relative to B_App_single, 4 outstanding',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs['ud B perf'], 'ud') / gbps(runs['ud B perf'], 'single'),
      expect: reported(1),
    },
    {
      what: 'datagram bandwidth alone, relative to bare',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs.alone, 'ud') / gbps(runs['alone bare'], 'ud'),
      expect: equal(0.01),
    },
    {
      what: 'bandwidth of B alongside atomics of M, relative to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'atomic M', gbps, 'B'),
      expect: atLeast(0.9),
    },
  ],
};

/** Long enough that one message of 1 MiB is less than 1 % of the result. */
const LONGER = { duration: '14ms', warmup: '2ms' };

const MIXES: Readonly<Record<string, readonly string[]>> = {
  'B alone': [B],
  'B of 4 queue pairs alone': [`${B},qps=4`],
  'M alone': [M],
  'D alone': [D],
  'D and M': [D, M],
  'three D and three M': [`${D},count=3`, `${M},count=3`],
};

/** The policy takes no core time. */
const FREE = { set: { interceptorWrNs: 0 } };

const LOOKS = Object.entries({
  bandwidth: gbps,
  'message rate': mmps,
  'average latency': avgUs,
  'p99 latency': p99Us,
});

/** Each application must get the same as bare, in mixtures whose names end with the suffix. */
const identical = (suffix: string, deviation?: string) =>
  Object.entries(MIXES).flatMap(([name, apps]) =>
    apps.flatMap(([app]) =>
      LOOKS.map(([what, measure]) => ({
        what: `${what}, relative to bare${suffix}`,
        at: `${app}, ${name}`,
        unit: 'x',
        measure: (runs: Runs) => factor(runs, `${name}${suffix}`, measure, app),
        expect: equal(0.01),
        deviation,
      })),
    ),
  );

const nothingToIsolate: Claim = {
  id: 'nothing-to-isolate',
  system: 'perf',
  part: 7,
  title: 'With nothing to isolate, results are identical to bare',
  source: 'PeRF 3.4 and 4.4: the policy acts only on mixtures that conflict',
  shows: [],
  note: 'The model charges every interceptor 10 ns per request and 10 ns per completion. Of the microsecond that D waits, these 20 ns are 2 %, whatever the policy does. On the device nothing changes.',
  mixes: Object.assign(
    {},
    ...Object.entries(MIXES).flatMap(([name, apps]) => [
      compared(POLICIES, name, apps, LONGER),
      compared(POLICIES, `${name}, core time aside`, apps, { ...LONGER, ...FREE }),
    ]),
  ),
  checks: [...identical(''), ...identical(', core time aside', 'added after the first run')],
};

const SIZES = ['256KiB', '1MiB', '4MiB', '16MiB', '64MiB'];

/** A 16 KiB message takes as long to complete as a fifth of the link takes to carry it. */
const SHORT = ['16KiB', '64KiB', '256KiB', '1MiB', '4MiB'];

const DEPTHS = [1, 5];

const LONGEST = { duration: '22ms', warmup: '2ms' };

const apps = (sizes: readonly string[]) => sizes.map((size) => `B:name=${size},size=${size},depth=1`);

const mean = (runs: Runs, word: string, sizes: readonly string[]) =>
  sizes.reduce((sum, size) => sum + gbps(runs[word], size), 0) / sizes.length;

const five = (word: string, sizes: readonly string[], what: string) => [
  ...sizes.map((size) => ({
    what: `bandwidth of one of five relative to their mean, ${what}`,
    at: size,
    unit: 'x',
    measure: (runs: Runs) => gbps(runs[word], size) / mean(runs, word, sizes),
    expect: range(0.95, 1.05),
  })),
  {
    what: `bandwidth of all five, ${what}`,
    unit: 'Gbps',
    measure: (runs: Runs) => sizes.length * mean(runs, word, sizes),
    expect: atLeast(85),
  },
];

const sizes: Claim = {
  id: 'sizes',
  system: 'perf',
  part: 7,
  title: 'B_Apps with different message sizes share evenly at queue depth 1',
  source: 'PeRF appendix B, fig. 18(b), for 1 MB against 1 GB; the bound for five sizes is our own',
  shows: [],
  note: 'Five sizes down to 4 KiB cannot share evenly: even alone, a 4 KiB message takes longer than it would at a fifth of the link bandwidth.',
  mixes: {
    ...compared(PERF, 'five', apps(SIZES), LONGEST),
    ...compared(PERF, 'short', apps(SHORT), LONGEST),
    ...Object.assign(
      {},
      ...DEPTHS.map((depth) =>
        compared(
          PERF,
          `depth ${depth}`,
          [`B:name=small,size=1MB,depth=${depth}`, `B:name=large,size=1GB,depth=${depth}`],
          LONGEST,
        ),
      ),
    ),
  },
  checks: [
    ...five('five perf', SIZES, '256 KiB to 64 MiB'),
    ...five('short perf', SHORT, '16 KiB to 4 MiB'),
    ...DEPTHS.map((depth) => ({
      what: 'bandwidth of 1 MB relative to 1 GB messages',
      at: `depth ${depth}`,
      unit: 'x',
      measure: (runs: Runs) =>
        gbps(runs[`depth ${depth} perf`], 'small') / gbps(runs[`depth ${depth} perf`], 'large'),
      expect: equal(0.05),
    })),
    {
      what: 'bandwidth of 1 MB relative to 1 GB messages, bare',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs['depth 1 bare'], 'small') / gbps(runs['depth 1 bare'], 'large'),
      expect: reported('-'),
    },
    ...['bare', 'paper'].flatMap((word) => [
      {
        what: `bandwidth of 256 KiB messages relative to the mean of five, ${word}`,
        unit: 'x',
        measure: (runs: Runs) => gbps(runs[`five ${word}`], '256KiB') / mean(runs, `five ${word}`, SIZES),
        expect: reported('-'),
      },
      {
        what: `bandwidth of 16 KiB messages relative to the mean of five, ${word}`,
        unit: 'x',
        measure: (runs: Runs) => gbps(runs[`short ${word}`], '16KiB') / mean(runs, `short ${word}`, SHORT),
        expect: reported('-'),
      },
    ]),
  ],
};

/** Applications that the paper considers harmless. */
const SMALL = { 'D of 8 queue pairs': `${D},qps=8`, 'M of one': M };

const smallImpact: Claim = {
  id: 'small-impact',
  system: 'perf',
  part: 7,
  title:
    'D_App, even with many queue pairs, and M_App_single take little from others, so their requests bypass the policy',
  source: 'PeRF 3.4: their impact is minimal, so their requests bypass all isolation',
  shows: ['perf-3.4-small-impact'],
  note: 'Measured on the bare device: the claim is the reason for the bypass.',
  mixes: {
    b: mix('cx6-100g', B, LONG),
    m: mix('cx6-100g', `${M},name=other`, LONG),
    d: mix('cx6-100g', `${D},name=other`, LONG),
    ...Object.fromEntries(
      Object.entries(SMALL).flatMap(([name, small]) => [
        [`b, ${name}`, mix('cx6-100g', [B, small], LONG)],
        [`m, ${name}`, mix('cx6-100g', [`${M},name=other`, small], LONG)],
        [`d, ${name}`, mix('cx6-100g', [`${D},name=other`, small], LONG)],
      ]),
    ),
  },
  checks: Object.keys(SMALL).flatMap((name) => [
    {
      what: 'bandwidth of B, relative to alone',
      at: `alongside ${name}`,
      unit: 'x',
      measure: (runs: Runs) => gbps(runs[`b, ${name}`], 'B') / gbps(runs.b, 'B'),
      expect: atLeast(0.95),
    },
    {
      what: 'rate of another M, relative to alone',
      at: `alongside ${name}`,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[`m, ${name}`], 'other') / mmps(runs.m, 'other'),
      expect: equal(0.05),
    },
    {
      what: 'average latency of another D, relative to alone',
      at: `alongside ${name}`,
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs[`d, ${name}`], 'other') / avgUs(runs.d, 'other'),
      expect: equal(0.1),
    },
  ]),
};

export const CLAIMS: readonly Claim[] = [classifier, limits, nothingToIsolate, sizes, smallImpact];
