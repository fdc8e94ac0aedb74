/** Justitia together with congestion control and hardware queues, at 100 Gbps, and next to unmanaged hosts. */

import { avgUs, gbps, mmps, p50Us, p99Us } from '../../mix/metrics.ts';
import type { Check, Claim, Runs } from '../engine/claim.ts';
import { compared, factor, JUSTITIA } from '../engine/compared.ts';
import { atLeast, atMost, below, equal, falls, reported, rises } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';
import { b, CAP, d, m, ofBoth, SETTLED } from './declared.ts';

type Latency = typeof p50Us;
const LATENCIES: readonly (readonly [name: string, of: Latency])[] = [
  ['median', p50Us],
  ['p99', p99Us],
];

/** Both anomalies of the bare device, relative to it: the latency of D and the rate of M alongside B. */
const improved = (names: { bd: string; bm: string }): Check[] => [
  ...LATENCIES.flatMap(([name, of]) =>
    ofBoth(
      { what: `${name} latency of D alongside B, relative to bare`, unit: 'x', expect: falls() },
      (runs, word) => factor(runs, names.bd, of, 'D', [word, 'bare']),
    ),
  ),
  ...ofBoth({ what: 'rate of M alongside B, relative to bare', unit: 'x', expect: rises() }, (runs, word) =>
    factor(runs, names.bm, mmps, 'M', [word, 'bare']),
  ),
];

const TEN_GBPS = {
  profile: 'cx4-40g',
  set: { linkGbps: 10, congestionControl: 'dcqcn' },
  ...SETTLED,
} as const;

const withDcqcn: Claim = {
  id: 'with-dcqcn',
  system: 'justitia',
  part: 6,
  title: 'Justitia complements DCQCN at 10 Gbps',
  source: 'Justitia 6.3, figs. 19 to 21: latencies improve by up to 8.6 times and throughput by 2.6 times',
  shows: ['justitia-6.3-fig19-21'],
  note: 'ConnectX-4 at 10 Gbps stands in for ConnectX-4 Lx. The factors depend on the bare device, so only their direction is expected.',
  mixes: {
    ...compared(JUSTITIA, 'bd', [b(), d()], TEN_GBPS),
    ...compared(JUSTITIA, 'bm', [b(), m()], { ...TEN_GBPS, duration: '22ms', warmup: '2ms' }),
    ...compared(JUSTITIA, 'dm', [d(), m()], { ...TEN_GBPS, duration: '50ms', warmup: '40ms' }),
  },
  checks: [
    ...improved({ bd: 'bd', bm: 'bm' }),
    {
      what: 'the same factor of p99 latency, bare relative to Justitia',
      unit: 'x',
      measure: (runs) => factor(runs, 'bd', p99Us, 'D', ['bare', 'justitia']),
      expect: reported('up to 8.6'),
    },
    {
      what: 'the same factor of the rate of M',
      unit: 'x',
      measure: (runs) => factor(runs, 'bm', mmps, 'M', ['justitia', 'bare']),
      expect: reported(2.6),
    },
    {
      what: 'rate of M alongside D, relative to bare',
      unit: 'x',
      measure: (runs) => factor(runs, 'dm', mmps, 'M', ['justitia', 'bare']),
      expect: reported('-'),
    },
  ],
};

const QUEUES = { profile: 'cx4-40g', set: { scheduler: 'sp' }, ...SETTLED } as const;

const HIGH_D = d('size=16,think=1us,class=0');
const LOW_B = b('size=1MB,class=1');
const LOW_M = m('size=16,batch=64,class=1');

/** R_min with two applications alongside D, and the part of one of them. */
const THIRD = (CAP * 2) / 3 / 2;

const hardwareQueues: Claim = {
  id: 'hardware-queues',
  system: 'justitia',
  part: 6,
  title: 'Within one hardware queue, a throughput application is isolated from a bandwidth application',
  source: 'Justitia 6.3, fig. 22: with hardware queues alone, the throughput application loses rate',
  shows: ['justitia-6.3-fig22'],
  note: 'The latency application has the other hardware queue to itself. At least, B and M get R_min, which is a third of MaxRate for each.',
  mixes: {
    d: mix('cx4-40g', HIGH_D, { set: QUEUES.set }),
    b: mix('cx4-40g', LOW_B, { set: QUEUES.set, duration: '10ms' }),
    m: mix('cx4-40g', LOW_M, { set: QUEUES.set }),
    ...compared(JUSTITIA, 'all', [HIGH_D, LOW_B, LOW_M], QUEUES),
  },
  checks: [
    {
      what: 'rate of M with hardware queues alone, relative to alone',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs['all bare'], 'M') / mmps(runs.m, 'M'),
      expect: falls(),
    },
    ...ofBoth(
      { what: 'rate of M, relative to hardware queues alone', unit: 'x', expect: rises() },
      (runs, word) => factor(runs, 'all', mmps, 'M', [word, 'bare']),
    ),
    ...ofBoth(
      { what: 'rate of M, relative to alone', unit: 'x', expect: atLeast(0.97 * THIRD) },
      (runs, word) => mmps(runs[`all ${word}`], 'M') / mmps(runs.m, 'M'),
    ),
    ...ofBoth(
      { what: 'bandwidth of B, relative to alone', unit: 'x', expect: atLeast(0.97 * THIRD) },
      (runs, word) => gbps(runs[`all ${word}`], 'B') / gbps(runs.b, 'B'),
    ),
    ...ofBoth(
      { what: 'median latency of D, relative to alone', unit: 'x', expect: atMost(1.3) },
      (runs, word) => p50Us(runs[`all ${word}`], 'D') / p50Us(runs.d, 'D'),
    ),
  ],
};

const AT_100G = { profile: 'cx5-100g', ...SETTLED } as const;

const at100Gbps: Claim = {
  id: 'at-100-gbps',
  system: 'justitia',
  part: 6,
  title: 'Justitia mitigates the anomalies at 100 Gbps, too',
  source: 'Justitia appendix C.1, figs. 30 and 31, with messages of 5 MB',
  shows: ['justitia-C.1-fig30-31'],
  note: 'ConnectX-5 stands in for ConnectX-4. The paper plots the figures without stating values.',
  mixes: {
    ...compared(JUSTITIA, 'bd', [b('size=5MB'), d()], AT_100G),
    ...compared(JUSTITIA, 'bm', [b('size=5MB'), m()], { ...AT_100G, duration: '22ms', warmup: '2ms' }),
  },
  checks: improved({ bd: 'bd', bm: 'bm' }),
};

/** Hosts 0 and 2 are managed, as sender and receiver; host 1 sends to host 3 without a policy. */
const RACKS = {
  profile: 'cx3-56g',
  hosts: 4,
  topology: 'dumbbell',
  set: { linkGbps: 10, congestionControl: 'dcqcn' },
  onHosts: ['@1=none', '@3=none'],
  duration: '100ms',
  warmup: '50ms',
} as const;

const unmanagedHosts: Claim = {
  id: 'unmanaged-hosts',
  system: 'justitia',
  part: 6,
  title: 'One pair of managed hosts on a trunk that unmanaged hosts congest',
  source: 'Justitia 6.6, fig. 25: better isolation than with DCQCN alone, at the same bandwidth',
  shows: ['justitia-6.6-fig25'],
  note:
    'In the paper, 24 unmanaged pairs congest uplinks of 160 Gbps; here, one pair congests a trunk of 10 Gbps. D also waits ' +
    'in queues of the switches, which the unmanaged hosts fill, so only the direction is expected.',
  mixes: compared(
    JUSTITIA,
    'all',
    [
      b('size=1MB,count=8,host=0,to=2'),
      d('size=16,think=1us,host=0,to=2'),
      b('name=others,size=1MB,host=1,to=3'),
    ],
    RACKS,
  ),
  checks: [
    ...[...LATENCIES, ['average', avgUs] as const].flatMap(([name, of]) =>
      ofBoth(
        { what: `${name} latency of D, relative to DCQCN alone`, unit: 'x', expect: below(1) },
        (runs, word) => factor(runs, 'all', of, 'D', [word, 'bare']),
      ),
    ),
    ...ofBoth(
      { what: 'bandwidth of the managed B, relative to DCQCN alone', unit: 'x', expect: equal(0.1) },
      (runs, word) => factor(runs, 'all', gbps, 'B', [word, 'bare']),
    ),
  ],
};

export const CLAIMS: readonly Claim[] = [withDcqcn, hardwareQueues, at100Gbps, unmanagedHosts];
