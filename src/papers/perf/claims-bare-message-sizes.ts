/** PeRF's claims about bare devices: how message sizes share a device. */

import { avgUs, gbps, mmps, share } from '../../mix/metrics.ts';
import type { Claim, Runs } from '../engine/claim.ts';
import { below, closedForm, equal, falls, range, reported, rises } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';

/** MTU, bytes of a small message, number of queue pairs with small and with large messages. */
const POINTS: readonly (readonly [number, number, number, number])[] = [1024, 1500, 2048, 4096].flatMap(
  (mtu) => [
    [mtu, 64, 1, 1] as const,
    [mtu, 64, 64, 8] as const,
    [mtu, 256, 16, 1] as const,
    [mtu, 512, 4, 2] as const,
    [mtu, mtu, 1, 8] as const,
    [mtu, mtu, 64, 1] as const,
  ],
);

const idOf = (point: readonly number[]) => point.join('-');

/** At least 2 ms and 400 rounds, so that a single packet does not matter. */
function duration([mtu, small, n, large]: readonly number[]): string {
  const roundNs = ((large * (mtu + 82) + n * (small + 98)) * 8) / 100;
  return `${Math.ceil(200e3 + Math.max(2e6, 400 * roundNs))}ns`;
}

const sharesLargeSmall: Claim = {
  id: 'shares-large-small',
  system: 'bare',
  part: 1,
  title: "Large and small messages: queue pairs take turns, one packet each, whatever the packet's size",
  source:
    'L MTU / (L MTU + n s) is the payload share of L large queue pairs alongside n with messages of s bytes; Palos II-B; PeRF 2.2',
  shows: ['perf-2.2-rules'],
  mixes: Object.fromEntries(
    POINTS.map((point) => {
      const [mtu, small, n, large] = point;
      const apps = [`B:name=large,size=${256 * mtu}B,qps=${large}`, `M:name=small,size=${small}B,qps=${n}`];
      const more = { set: { mtuBytes: mtu }, duration: duration(point), warmup: '200us' };
      return [idOf(point), mix('ideal', apps, more)];
    }),
  ),
  checks: POINTS.map((point) => {
    const [mtu, small, n, large] = point;
    return {
      what: 'share of the large messages',
      at: `MTU ${mtu}, ${large} large, ${n} x ${small} B`,
      unit: '',
      measure: (runs: Runs) => share(runs[idOf(point)], 'large'),
      expect: closedForm((large * mtu) / (large * mtu + n * small)),
    };
  }),
};

const COUNTS = [1, 2, 4, 8, 16, 32];

const PROFILES = ['ideal', 'cx6-100g'];

const sharesOneMany: Claim = {
  id: 'shares-one-many',
  system: 'bare',
  part: 1,
  title: 'One queue pair alongside an application with n: each queue pair gets an equal share',
  source: '1 / (1 + n); PeRF 2.3.2, fig. 3(a)',
  shows: ['perf-2.3.2-fig3a'],
  smoke: true,
  mixes: Object.fromEntries(
    PROFILES.flatMap((profile) =>
      COUNTS.map((n) => [
        `${profile} ${n}`,
        mix(profile, ['B:name=one,size=1MiB', `B:name=many,size=1MiB,qps=${n}`]),
      ]),
    ),
  ),
  checks: PROFILES.flatMap((profile) =>
    COUNTS.map((n) => ({
      what: `share of the single queue pair, ${profile}`,
      at: `n = ${n}`,
      unit: '',
      measure: (runs: Runs) => share(runs[`${profile} ${n}`], 'one'),
      expect: closedForm(1 / (1 + n), profile === 'ideal' ? 0.01 : 0.05),
    })),
  ),
};

const M = 'M:name=fg,size=16';

const D = 'D:name=fg,size=16,think=1us';

/** Sizes in bytes, up to the MTU of 4096. */
const UP_TO_MTU = [64, 256, 1024, 2048, 4096];

const BEYOND = [8192, 65536, 1 << 20, 1e9];

/** Short messages are posted in batches. */
const background = (size: number) => `${size <= 65536 ? 'M' : 'B'}:name=bg,size=${size}B`;

const all = [...UP_TO_MTU, ...BEYOND];

const backgroundSize: Claim = {
  id: 'background-size',
  system: 'bare',
  part: 3,
  title: 'A 16 B application slows down as background messages grow, up to the MTU',
  source: 'PeRF 2.2, fig. 1(b), (c)',
  shows: ['perf-2.2-fig1b-below-mtu', 'perf-2.2-fig1b-above-mtu', 'perf-2.2-fig1c'],
  mixes: Object.fromEntries(
    all.flatMap((size) => [
      [`m ${size}`, mix('cx6-100g', [M, background(size)])],
      [`d ${size}`, mix('cx6-100g', [D, background(size)])],
    ]),
  ),
  checks: [
    {
      what: 'rate alongside 4096 B, relative to 64 B',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs['m 4096'], 'fg') / mmps(runs['m 64'], 'fg'),
      expect: falls(),
    },
    {
      what: 'latency alongside 4096 B, relative to 64 B',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs['d 4096'], 'fg') / avgUs(runs['d 64'], 'fg'),
      expect: rises(),
    },
    ...UP_TO_MTU.slice(1).flatMap((size, i) => {
      const at = `${UP_TO_MTU[i]} to ${size} B`;
      return [
        {
          what: 'rate never rises with the size, up to the MTU',
          at,
          unit: 'x',
          measure: (runs: Runs) => mmps(runs[`m ${size}`], 'fg') / mmps(runs[`m ${UP_TO_MTU[i]}`], 'fg'),
          expect: range(0, 1, 0.05),
        },
        {
          what: 'latency never falls with the size, up to the MTU',
          at,
          unit: 'x',
          measure: (runs: Runs) => avgUs(runs[`d ${size}`], 'fg') / avgUs(runs[`d ${UP_TO_MTU[i]}`], 'fg'),
          expect: rises(0.95),
        },
      ];
    }),
    ...BEYOND.flatMap((size) => [
      {
        what: 'rate beyond the MTU, relative to the MTU',
        at: `${size} B`,
        unit: 'x',
        measure: (runs: Runs) => mmps(runs[`m ${size}`], 'fg') / mmps(runs['m 4096'], 'fg'),
        expect: equal(0.05),
      },
      {
        what: 'latency beyond the MTU, relative to the MTU',
        at: `${size} B`,
        unit: 'x',
        measure: (runs: Runs) => avgUs(runs[`d ${size}`], 'fg') / avgUs(runs['d 4096'], 'fg'),
        expect: equal(0.05),
      },
    ]),
  ],
};

const MTUS = [1024, 2048, 4096];

const B = 'B:size=1MiB';

const backgroundSizeByMtu: Claim = {
  id: 'background-size-by-mtu',
  system: 'bare',
  part: 3,
  title: 'The larger the MTU, the lower the message rate of a 16 B application',
  source: 'PeRF 2.2, fig. 1(b), (c)',
  shows: ['perf-2.2-fig1b-above-mtu', 'perf-2.2-fig1c'],
  note: 'Latency is only reported: the egress FIFO holds the same number of bytes with every MTU.',
  mixes: Object.fromEntries(
    MTUS.flatMap((mtu) => [
      [`m ${mtu}`, mix('cx6-100g', [B, 'M:size=16'], { set: { mtuBytes: mtu } })],
      [`d ${mtu}`, mix('cx6-100g', [B, 'D:size=16,think=1us'], { set: { mtuBytes: mtu } })],
    ]),
  ),
  checks: [
    ...MTUS.slice(1).map((mtu, i) => ({
      what: 'rate after doubling the MTU, relative to before',
      at: `${MTUS[i]} to ${mtu}`,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[`m ${mtu}`], 'M') / mmps(runs[`m ${MTUS[i]}`], 'M'),
      expect: falls(),
    })),
    ...MTUS.slice(1).map((mtu, i) => ({
      what: `latency with an MTU of ${mtu}, relative to ${MTUS[i]}`,
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs[`d ${mtu}`], 'D') / avgUs(runs[`d ${MTUS[i]}`], 'D'),
      expect: reported('above 1'),
    })),
  ],
};

const SIZES = [1024, 2048, 4096];

const FIVE = 'M:name=small,size=64,count=5';

const sixApps: Claim = {
  id: 'six-apps',
  system: 'bare',
  part: 3,
  title: 'Five applications with small messages and a sixth with larger ones all get the same message rate',
  source: 'PeRF 2.2, fig. 1(a)',
  shows: ['perf-2.2-fig1a'],
  mixes: {
    five: mix('cx6-100g', FIVE),
    ...Object.fromEntries(
      SIZES.map((size) => [`${size}`, mix('cx6-100g', [FIVE, `M:name=large,size=${size}B`])]),
    ),
  },
  checks: SIZES.flatMap((size) => [
    {
      what: 'rate of the five, relative to without the sixth',
      at: `${size} B`,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[size], 'small') / mmps(runs.five, 'small'),
      expect: falls(),
    },
    {
      what: 'rate of the sixth, relative to each of the five',
      at: `${size} B`,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[size], 'large') / (mmps(runs[size], 'small') / 5),
      expect: equal(0.05),
    },
  ]),
};

const DEPTHS = [1, 2, 3, 4, 5];

const beside = (short: string, long: string, depth: number) =>
  mix('cx6-100g', [`B:name=short,size=${short},depth=${depth}`, `B:name=long,size=${long},depth=${depth}`], {
    duration: '22ms',
    warmup: '2ms',
  });

const shortToLong = (runs: Runs, name: string | number) =>
  gbps(runs[name], 'short') / gbps(runs[name], 'long');

const messageSizeDepth: Claim = {
  id: 'message-size-depth',
  system: 'bare',
  part: 4,
  title: '1 MB alongside 1 GB messages: at depth 1, the send queue runs empty between the shorter messages',
  source: 'PeRF appendix B, fig. 18(a)',
  shows: ['perf-B-fig18a'],
  note: 'The loss at depth 1 follows from the gap between a completion and the next packet; no parameter was tuned for it.',
  mixes: {
    ...Object.fromEntries(DEPTHS.map((depth) => [`${depth}`, beside('1MiB', '1GiB', depth)])),
    decimal: beside('1MB', '1GB', 5),
  },
  checks: [
    ...DEPTHS.map((depth) => ({
      what: `bandwidth of 1 MiB relative to 1 GiB messages, depth ${depth}`,
      unit: 'x',
      measure: (runs: Runs) => shortToLong(runs, depth),
      expect: depth === 1 ? below(1) : depth === 5 ? equal(0.001) : reported('to 1'),
      deviation:
        depth === 5
          ? 'the first run used 10^6 and 10^9 B: with 10^6 B, every 245th packet is short, which costs 0.35 % of a packet round at any depth'
          : undefined,
    })),
    {
      what: 'bandwidth of 10^6 B relative to 10^9 B messages, depth 5',
      unit: 'x',
      measure: (runs: Runs) => shortToLong(runs, 'decimal'),
      expect: reported(1e6 / 245 / 4096),
    },
  ],
};

export const CLAIMS: readonly Claim[] = [
  sharesLargeSmall,
  sharesOneMany,
  backgroundSize,
  backgroundSizeByMtu,
  sixApps,
  messageSizeDepth,
];
