/** DRUM's claims about many connections: more than the cache of the device has contexts for. */

import { avgUs, mmps, p50Us, p99Us } from '../../mix/metrics.ts';
import type { Mix } from '../../mix/mixture.ts';
import type { Claim, Runs } from '../engine/claim.ts';
import { atLeast, atMost, equal, reported } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';

const POLICY = 'drum:connectionsPerQp=10';
/** The cache of 20 contexts that DRUM reports (II-D, fig. 2(c)). */
const set = { qpcEntries: 20 };
const CONNECTIONS = [20, 50, 100];

/** The same mixture on the bare device, and under drum with shared queue pairs. */
function pair(name: string, apps: readonly string[], duration: string): Record<string, Mix> {
  const more = { set, duration };
  return {
    [`${name} bare`]: mix('cx5-40g', apps, more),
    [`${name} drum`]: mix('cx5-40g', apps, { ...more, policy: POLICY }),
  };
}

const FOREGROUND = 'D:name=fg,size=32,think=1us';
const background = (connections: number, batch: number) =>
  `M:name=bg,size=1KB,batch=${batch},depth=${batch},qps=${connections - 1}`;

/** Between these lies the ratio of any percentile from the median to the 99th. */
const leastRatio = (runs: Runs, at: number) =>
  p50Us(runs[`${at} bare`], 'fg') / p99Us(runs[`${at} drum`], 'fg');
const mostRatio = (runs: Runs, at: number) =>
  p99Us(runs[`${at} drum`], 'fg') / p50Us(runs[`${at} bare`], 'fg');

const connections: Claim = {
  id: 'connections',
  system: 'drum',
  part: 4,
  title: 'One 32 B message at a time alongside 19, 49 and 99 other connections',
  source: 'DRUM V, test case 1, fig. 10',
  shows: ['drum-V-tc1-fig10-drum', 'drum-V-tc1-fig10-cc20'],
  note: "The paper's factors are those of the 80th percentile. The factors here compare the median of the one with the 99th percentile of the other, so that the 80th is at least as good.",
  mixes: Object.assign(
    {},
    ...CONNECTIONS.map((count) => pair(`${count}`, [FOREGROUND, background(count, 20)], '6ms')),
  ),
  checks: [
    {
      what: 'bare / drum',
      at: '100 connections',
      unit: 'x',
      measure: (runs) => leastRatio(runs, 100),
      expect: atLeast(3.1),
    },
    {
      what: 'bare / drum',
      at: '50 connections',
      unit: 'x',
      measure: (runs) => leastRatio(runs, 50),
      expect: atLeast(1.5),
    },
    {
      what: 'drum / bare',
      at: '20 connections',
      unit: 'x',
      measure: (runs) => mostRatio(runs, 20),
      expect: atMost(1.25),
    },
  ],
};

const BATCHES = [20, 40, 60, 80, 100];

const batches: Claim = {
  id: 'batches',
  system: 'drum',
  part: 4,
  title: 'One 32 B message at a time is unaffected by the batches of others',
  source: 'DRUM V, test case 1, fig. 8: within 20 us; the 10 % are our own bound',
  shows: ['drum-V-tc1-fig8'],
  note: 'The 99th percentile in place of the 80th, alongside 99 connections.',
  mixes: Object.fromEntries(
    BATCHES.map((batch) => [
      `${batch}`,
      mix('cx5-40g', [FOREGROUND, background(100, batch)], { set, duration: '6ms', policy: POLICY }),
    ]),
  ),
  checks: [
    ...BATCHES.map((batch) => ({
      what: 'latency',
      at: `batches of ${batch}`,
      unit: 'us',
      measure: (runs: Runs) => p99Us(runs[batch], 'fg'),
      expect: atMost(20),
    })),
    ...BATCHES.slice(1).map((batch) => ({
      what: 'latency, relative to batches of 20',
      at: `batches of ${batch}`,
      unit: 'x',
      measure: (runs: Runs) => p99Us(runs[batch], 'fg') / p99Us(runs[20], 'fg'),
      expect: equal(0.1),
    })),
  ],
};

const rateOf = (runs: Runs, name: string) => mmps(runs[name], 'M');
const single = (name: string) => `M:name=M,size=16,batch=1,depth=4,${name}`;

const fewerContexts: Claim = {
  id: 'fewer-contexts',
  system: 'drum',
  part: 4,
  title: '64 connections have the rate of as many as the cache has contexts for',
  source: 'DRUM II-D and IV; the bound is our own',
  shows: [],
  mixes: {
    twenty: mix('cx5-40g', single('qps=20'), { set }),
    bare: mix('cx5-40g', single('qps=64'), { set }),
    shared: mix('cx5-40g', single('qps=64'), { set, policy: POLICY }),
    rotated: mix('cx5-40g', 'M:count=64', { set, policy: 'drum:topK=20,epochUs=100' }),
    'twenty batches': mix('cx5-40g', 'M:count=20', { set }),
  },
  checks: [
    {
      what: 'over shared queue pairs, relative to 20 connections',
      unit: 'x',
      measure: (runs) => rateOf(runs, 'shared') / rateOf(runs, 'twenty'),
      expect: atLeast(0.9),
    },
    {
      what: 'of 64 applications, 20 at a time on their own queue pairs, relative to 20 applications',
      unit: 'x',
      measure: (runs) => rateOf(runs, 'rotated') / rateOf(runs, 'twenty batches'),
      expect: atLeast(0.9),
    },
    {
      what: 'on the bare device, relative to 20 connections',
      unit: 'x',
      measure: (runs) => rateOf(runs, 'bare') / rateOf(runs, 'twenty'),
      expect: reported(0.33),
    },
  ],
};

const timeRatio = (runs: Runs, at: number) => mmps(runs[`${at} bare`], 'fg') / mmps(runs[`${at} drum`], 'fg');

const flows: Claim = {
  id: 'flows',
  system: 'drum',
  part: 4,
  title: 'Flows of 1 MB in requests of 32 B',
  source: 'DRUM V, test case 2, fig. 11',
  shows: ['drum-V-tc2-fig11-cc20'],
  note: 'The time of a flow is inversely proportional to the rate of its requests, which is what is measured.',
  mixes: Object.assign(
    {},
    ...[20, 100].map((count) =>
      pair(`${count}`, ['M:name=fg,size=32,batch=16,depth=64', background(count, 20)], '6ms'),
    ),
  ),
  checks: [
    {
      what: 'time under drum / bare',
      at: '20 connections',
      unit: 'x',
      measure: (runs) => timeRatio(runs, 20),
      expect: atMost(1.18),
    },
    {
      what: 'time bare / under drum',
      at: '100 connections',
      unit: 'x',
      measure: (runs) => 1 / timeRatio(runs, 100),
      expect: atLeast(3.75),
    },
  ],
};

const transfer = (batch: number) =>
  mix(
    'cx5-40g',
    ['B:name=fg,size=1MiB,depth=4,batch=1', `M:name=bg,size=1KB-1MB,batch=${batch},depth=${batch},qps=8`],
    {
      set,
      duration: '30ms',
      policy: POLICY,
    },
  );

const transfers: Claim = {
  id: 'transfers',
  system: 'drum',
  part: 4,
  title: 'A transfer in messages of 1 MB is unaffected by the batches of others',
  source: 'DRUM V, test case 2, fig. 9',
  shows: ['drum-V-tc2-fig9'],
  note: "The paper's other messages have up to 10 MB; with up to 1 MB, a shorter run has as many.",
  mixes: { twenty: transfer(20), hundred: transfer(100) },
  checks: [
    {
      what: 'rate alongside batches of 100, relative to 20',
      unit: 'x',
      measure: (runs) => mmps(runs.hundred, 'fg') / mmps(runs.twenty, 'fg'),
      expect: equal(0.1),
    },
  ],
};

const SMALL = [8, 24, 50];

const small: Claim = {
  id: 'small-messages',
  system: 'drum',
  part: 4,
  title: 'Messages of 8 to 50 B over 100 connections',
  source: 'DRUM V, test case 2, fig. 12(a): 43 to 98.1 %',
  shows: ['drum-V-tc2-fig12a-small'],
  note: 'The improvement is the difference of the latencies relative to that under DRUM, as in the rest of the paper. Four messages of each connection are outstanding. With 100 B and more, all connections of the bare device together would need more than its PCIe link carries for contexts and payload, which the model of the link does not limit.',
  mixes: Object.assign(
    {},
    ...SMALL.map((size) => pair(`${size}`, [`M:name=M,size=${size},batch=1,depth=4,qps=100`], '3ms')),
  ),
  checks: SMALL.map((size) => ({
    what: 'latency bare / under drum',
    at: `${size} B`,
    unit: 'x',
    measure: (runs: Runs) => avgUs(runs[`${size} bare`], 'M') / avgUs(runs[`${size} drum`], 'M'),
    expect: atLeast(1.43),
  })),
};

const SIZES = ['100', '1KB', '10KB', '100KB', '1MB'];

const sizes: Claim = {
  id: 'sizes',
  system: 'drum',
  part: 4,
  title: 'The rate of requests falls as messages grow',
  source: 'DRUM V, test case 2, fig. 12(b)',
  shows: ['drum-V-tc2-fig12b-trend'],
  mixes: Object.fromEntries(
    SIZES.map((size) => [
      size,
      mix('cx5-40g', `M:name=M,size=${size},batch=1,depth=4,qps=20`, {
        set,
        duration: '20ms',
        policy: POLICY,
      }),
    ]),
  ),
  checks: SIZES.slice(1).map((size, i) => ({
    what: `rate of messages of ${size}, relative to ${SIZES[i]}`,
    unit: 'x',
    measure: (runs: Runs) => mmps(runs[size], 'M') / mmps(runs[SIZES[i]], 'M'),
    expect: atMost(1),
  })),
};

const STORES = {
  '95 % GET': 'op=read:0.95/write:0.05',
  '50 % GET': 'op=read:0.5/write:0.5',
  'PUT only': 'op=write',
};
const CLIENTS = 100;

const stores: Claim = {
  id: 'stores',
  system: 'drum',
  part: 4,
  title: 'GETs and PUTs of a store by 100 clients, in a form that a link of 40 Gbit/s allows',
  source: 'DRUM V, test case 3, fig. 15: 1.52 (1.73 for PUTs), and 1.39 times the throughput',
  shows: [],
  note: 'Values of 32 B, and of 32 B to 4 KB. With the sizes of the paper, the link could not carry its rates.',
  mixes: Object.assign(
    {},
    ...Object.entries(STORES).flatMap(([name, op]) =>
      ['32', '32-4KiB'].map((size) =>
        pair(`${name} ${size}`, [`M:name=M,${op},size=${size},batch=1,depth=1,qps=${CLIENTS}`], '3ms'),
      ),
    ),
  ),
  checks: Object.keys(STORES).flatMap((name) =>
    ['32', '32-4KiB'].map((size) => ({
      what: `latency bare / under drum, ${name}`,
      at: size,
      unit: 'x',
      measure: (runs: Runs) =>
        avgUs(runs[`${name} ${size} bare`], 'M') / avgUs(runs[`${name} ${size} drum`], 'M'),
      expect: size === '32' ? atLeast(name === 'PUT only' ? 1.73 : 1.52) : atLeast(0.99),
    })),
  ),
};

export const CLAIMS: readonly Claim[] = [
  connections,
  batches,
  fewerContexts,
  flows,
  transfers,
  small,
  sizes,
  stores,
];
