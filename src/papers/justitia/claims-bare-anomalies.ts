/** Justitia's claims about bare devices: the isolation anomalies. */

import { avgUs, gbps, mmps, p50Us, p99Us } from '../../mix/metrics.ts';
import type { Mix } from '../../mix/mixture.ts';
import type { Check, Claim, Runs } from '../engine/claim.ts';
import { closedForm, type Expectation, falls, range, ratio, reported, rises } from '../engine/expect.ts';
import { type MixOptions, mix } from '../engine/mix.ts';

// Justitia's experiment: a latency application (D) and a message-rate application (M), alone and alongside large messages.
const D = 'D:size=16,think=1us';
const M = 'M:size=16,batch=64';

/** The runs `d`, `bd`, `m` and `bm`; `more` applies to all of them. */
function besideB(profile: string, b: string, more: MixOptions = {}): Record<string, Mix> {
  const long = { duration: '20ms', ...more };
  return {
    d: mix(profile, D, more),
    bd: mix(profile, [b, D], long),
    m: mix(profile, M, more),
    bm: mix(profile, [b, M], long),
  };
}

/** The latency of D alongside B, relative to D alone. */
function latencyRatio(what: string, us: typeof avgUs, expect: Expectation): Check {
  return { what, unit: 'x', measure: (runs: Runs) => us(runs.bd, 'D') / us(runs.d, 'D'), expect };
}

/** The rate of M alongside B, relative to M alone. */
function rateRatio(what: string, expect: Expectation): Check {
  return { what, unit: 'x', measure: (runs: Runs) => mmps(runs.bm, 'M') / mmps(runs.m, 'M'), expect };
}

/** Checks that both anomalies occur, whatever their size. */
const ANOMALIES: readonly Check[] = [
  latencyRatio('latency of D alongside B, relative to alone', avgUs, rises()),
  rateRatio('rate of M alongside B, relative to alone', falls()),
];

/** The factors of Justitia's figures 3 and 4, and the median latency to which the first factor is relative. */
function factorsOfFigures(p50: number, p99: number, alone: string): Check[] {
  return [
    latencyRatio('median of the latency application, relative to alone', p50Us, ratio(p50)),
    latencyRatio('p99 of the latency application, relative to alone', p99Us, ratio(p99)),
    rateRatio('rate of the throughput application, relative to alone', falls(2.85)),
    {
      what: 'median of the latency application alone',
      unit: 'us',
      measure: (runs: Runs) => p50Us(runs.d, 'D'),
      expect: reported(alone),
    },
  ];
}

const cx3BesideOneB: Claim = {
  id: 'cx3-beside-one-b',
  system: 'bare',
  part: 2,
  title:
    'A latency and a throughput application, each alongside 1 MB messages, on an InfiniBand ConnectX-3 (56 Gbps)',
  source: 'Justitia 3.1.1, figs. 3 and 4',
  shows: ['justitia-3.1.1-fig3-infi', 'justitia-3.1.1-fig4'],
  mixes: besideB('cx3-56g', 'B:size=1MB'),
  checks: factorsOfFigures(1.85, 2.23, '1.3 (perftest: 0.89)'),
};

const cx4BesideOneB: Claim = {
  id: 'cx4-beside-one-b',
  system: 'bare',
  part: 2,
  title:
    'A latency and a throughput application, each alongside 1 MB messages, on a RoCEv2 ConnectX-4 (40 Gbps)',
  source: 'Justitia 3.1.1, figs. 3 and 4',
  shows: ['justitia-3.1.1-fig3-roce', 'justitia-3.1.1-fig4'],
  mixes: besideB('cx4-40g', 'B:size=1MB'),
  checks: factorsOfFigures(3.82, 4, 'not given'),
};

const MTU = 4096;

const HEADERS = 82;

/** Rows of the table: profile, link in Gbps. */
const DEVICES = [
  ['cx3-56g', 56],
  ['cx5-100g', 100],
  ['cx4-40g', 40],
  ['cx4-40g', 10],
  ['cx3-56g', 10],
] as const;

const nameOf = ([profile, link]: (typeof DEVICES)[number]) => `${profile} at ${link} Gbps`;

const justitiaDevices: Claim = {
  id: 'justitia-devices',
  system: 'bare',
  part: 2,
  title: "Justitia's devices use the whole link, except for headers",
  source: 'Justitia appendix A, table 1',
  shows: ['justitia-A-table1'],
  note: 'ConnectX-5 stands in for ConnectX-4 at 100 Gbps. The sixth row is iWARP, for which there is no profile.',
  mixes: Object.fromEntries(
    DEVICES.map((device) => [
      nameOf(device),
      mix(device[0], 'B:size=1MiB', { set: { linkGbps: device[1] }, duration: '10ms' }),
    ]),
  ),
  checks: DEVICES.map((device) => ({
    what: `bandwidth of one application: ${nameOf(device)}`,
    unit: 'Gbps',
    measure: (runs: Runs) => gbps(runs[nameOf(device)], 'B'),
    expect: closedForm((device[1] * MTU) / (MTU + HEADERS)),
  })),
};

const FACTORS = [
  ['cx3-56g', 1.42],
  ['cx4-40g', 1.22],
] as const;

const messageSizeFactors: Claim = {
  id: 'message-size-factors',
  system: 'bare',
  part: 4,
  title: '1 GB alongside 1 MB messages on older devices, one request outstanding',
  source: 'Justitia 3.1.3, fig. 5',
  shows: ['justitia-3.1.3-fig5'],
  note: 'These factors would require tens of microseconds per message, which no published constant explains.',
  mixes: Object.fromEntries(
    FACTORS.map(([profile]) => [
      profile,
      mix(profile, ['B:name=short,size=1MB,depth=1', 'B:name=long,size=1GB,depth=1'], {
        duration: '22ms',
        warmup: '2ms',
      }),
    ]),
  ),
  checks: FACTORS.flatMap(([profile, factor]) => {
    const measure = (runs: Runs) => gbps(runs[profile], 'long') / gbps(runs[profile], 'short');
    const unit = 'x';
    return [
      {
        what: `bandwidth of 1 GB relative to 1 MB messages, ${profile}`,
        unit,
        measure,
        expect: reported(factor),
      },
      { what: 'longer messages get more bandwidth', at: profile, unit, measure, expect: rises(1) },
    ];
  }),
};

const SIXTEEN = 'B:name=large,size=1MB,count=16';

const long = { duration: '60ms', warmup: '2ms' };

const greedy: Claim = {
  id: 'greedy',
  system: 'bare',
  part: 7,
  title:
    'A latency application alongside 16 bandwidth applications, on a device that serves queue pairs in deep bursts',
  source: 'Justitia 3.1.1, appendix B.1, and 2.2',
  shows: ['justitia-3.1.1-139x', 'justitia-2.2-greedy'],
  note: 'Justitia assumes a greedy device, PeRF and Palos a packet round: no single device shows both.',
  smoke: true,
  mixes: {
    alone: mix('cx3-56g', D),
    greedy: mix('cx3-56g', [SIXTEEN, D], long),
    round: mix('cx3-56g', [SIXTEEN, D], { ...long, set: { scheduler: 'rr' } }),
  },
  checks: [
    {
      what: 'latency relative to alone, greedy device',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs.greedy, 'D') / avgUs(runs.alone, 'D'),
      expect: ratio(139),
    },
    {
      what: 'median latency relative to alone, greedy device',
      unit: 'x',
      measure: (runs: Runs) => p50Us(runs.greedy, 'D') / p50Us(runs.alone, 'D'),
      expect: reported(139),
    },
    {
      what: 'latency relative to alone, packet round: far less',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs.round, 'D') / avgUs(runs.alone, 'D'),
      expect: range(1, 30),
    },
  ],
};

const justitia100g: Claim = {
  id: 'justitia-100g',
  system: 'bare',
  part: 10,
  title: 'The anomalies persist at 100 Gbps, with 5 MB messages',
  source: 'Justitia 3.1.4, appendix C.1',
  shows: ['justitia-3.1.4-100g'],
  mixes: besideB('cx5-100g', 'B:size=5MB', { duration: '20ms' }),
  checks: ANOMALIES,
};

const justitiaDcqcn: Claim = {
  id: 'justitia-dcqcn',
  system: 'bare',
  part: 10,
  title: 'Congestion control does not help, because the conflict is inside the sender (10 Gbps, DCQCN, PFC)',
  source: 'Justitia 3.3',
  shows: ['justitia-3.3-dcqcn'],
  mixes: besideB('cx4-40g', 'B:size=1MB', {
    duration: '20ms',
    set: { linkGbps: 10, congestionControl: 'dcqcn' },
  }),
  checks: ANOMALIES,
};

export const CLAIMS: readonly Claim[] = [
  cx3BesideOneB,
  cx4BesideOneB,
  justitiaDevices,
  messageSizeFactors,
  greedy,
  justitia100g,
  justitiaDcqcn,
];
