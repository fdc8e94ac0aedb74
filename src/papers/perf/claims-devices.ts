/** PeRF on other devices. */

import { avgUs, gbps, mmps, unevenness } from '../../mix/metrics.ts';
import type { Claim, Runs } from '../engine/claim.ts';
import { compared, factor, PERF, type Policies } from '../engine/compared.ts';
import { atLeast, atMost, falls, reported, rises } from '../engine/expect.ts';

const DEVICE = { profile: 'cx5-40g', duration: '20ms', warmup: '2ms' };

const cx540g: Claim = {
  id: 'cx5-40g',
  system: 'perf',
  part: 8,
  title: 'The policy has the same effects on a 40 Gbps ConnectX-5',
  source: 'PeRF 5.2.5, experiments on other devices; the paper gives no numbers',
  shows: [],
  note:
    "Its slower link needs twice as many waits as the paper's 16. The latency of D does not fall to half, " +
    'because a piece of half the FIFO, 8 KiB, occupies the link for 1.7 us; with subMsgSizeBytes=4096 it falls to 0.47.',
  mixes: {
    ...compared(PERF, 'D', ['B:size=1MiB', 'D:size=16,think=1us'], DEVICE),
    ...compared(PERF, 'M', ['B:size=1MiB', 'M:size=16'], DEVICE),
    ...compared(PERF, 'multi', ['B:name=one,size=1MiB', 'B:name=many,size=1MiB,qps=8'], DEVICE),
    ...compared(PERF, 'four', ['B:size=1MiB,count=4', 'M:size=16'], DEVICE),
  },
  checks: [
    {
      what: 'average latency of D, relative to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'D', avgUs, 'D'),
      expect: falls(2),
    },
    {
      what: "average latency of D, relative to bare, the paper's rule",
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'D', avgUs, 'D', ['paper', 'bare']),
      expect: reported(1),
    },
    {
      what: 'bandwidth of B alongside D, relative to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'D', gbps, 'B'),
      expect: atLeast(0.85),
    },
    {
      what: 'rate of M, relative to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'M', mmps, 'M'),
      expect: rises(2),
    },
    {
      what: 'rate of M alongside four B, relative to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'four', mmps, 'M'),
      expect: rises(2),
    },
    {
      what: 'largest deviation of one of four B from their mean bandwidth',
      unit: '',
      measure: (runs: Runs) => unevenness(runs['four perf'], 'B'),
      expect: atMost(0.1),
    },
    {
      what: 'bandwidth ratio of 8 queue pairs to one, relative to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'multi', gbps, 'many') / factor(runs, 'multi', gbps, 'one'),
      expect: falls(4),
    },
  ],
};

const POLICIES: Policies = { bare: 'none', perf: 'perf' };

const CX5_40G = { profile: 'cx5-40g', duration: '12ms', warmup: '2ms' };

const B = 'B:size=1MiB';

const M = 'M:size=16';

const D = 'D:size=16,think=1us';

const MANY = `${B},qps=8`;

const HERE = ',op=read';

const THERE = ',host=1,to=0';

/** In each mixture, D must wait less and M must send more. */
const MIXES: Readonly<Record<string, readonly string[]>> = {
  'SEND, D': [`${B},op=send`, `${D},op=send`],
  'SEND, M': [`${B},op=send`, `${M},op=send`],
  'READ, D': [`${B},op=read`, `${D},op=read`],
  'READ, M': [`${B},op=read`, `${M},op=read`],
  'M and D': [B, M, D],
  'B of 8 queue pairs, D': [MANY, D],
  'B of 8 queue pairs, M': [MANY, M],
  '8 B, M and D': [`${B},count=8`, M, D],
  '16 B, M and D': [`${B},count=16`, M, D],
  'READs of B, WRITEs of D': [`${B}${HERE}`, `${D}${THERE}`],
  'READs of B, WRITEs of M': [`${B}${HERE}`, `${M}${THERE}`],
  'WRITEs of B, READs of D': [`${B}${THERE}`, `${D}${HERE}`],
  'WRITEs of B, READs of M': [`${B}${THERE}`, `${M}${HERE}`],
};

const having = (kind: string) =>
  Object.keys(MIXES).filter((name) => MIXES[name].some((app) => app[0] === kind));

const SIZES = ['256KiB', '1MiB', '4MiB', '16MiB', '64MiB'].map(
  (size, i) => `B:name=B.${i},size=${size},depth=1`,
);

const cx540gList: Claim = {
  id: 'cx5-40g-list',
  system: 'perf',
  part: 8,
  title: 'The policy helps small messages in the other mixtures on a 40 Gbps ConnectX-5, too',
  source: 'Bounds of our own; the paper has no numbers for this device',
  shows: [],
  note: 'On the bare device, M_App with 8 queue pairs takes no more from B than M_App with one, so there is nothing to give back.',
  mixes: {
    ...Object.assign(
      {},
      ...Object.entries(MIXES).map(([name, apps]) => compared(POLICIES, name, apps, CX5_40G)),
    ),
    ...compared(POLICIES, 'M of 8', [B, `${M},qps=8`], CX5_40G),
    ...compared(POLICIES, 'sizes', SIZES, { ...CX5_40G, duration: '40ms' }),
  },
  checks: [
    ...having('D').map((name) => ({
      what: 'average latency of D, relative to bare',
      at: name,
      unit: 'x',
      measure: (runs: Runs) => factor(runs, name, avgUs, 'D'),
      expect: falls(),
    })),
    ...having('M').map((name) => ({
      what: 'rate of M, relative to bare',
      at: name,
      unit: 'x',
      measure: (runs: Runs) => factor(runs, name, mmps, 'M'),
      expect: rises(),
    })),
    {
      what: 'bandwidth of B alongside M of 8 queue pairs, relative to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'M of 8', gbps, 'B'),
      expect: atLeast(1),
    },
    {
      what: 'largest deviation of one of five sizes at depth 1 from their mean bandwidth, relative to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'sizes', unevenness, 'B'),
      expect: falls(),
    },
  ],
};

const STEPS_NS = [76.9, 79.7, 80.6, 85, 89, 100];

const WORDS = { perf: 'adaptive waits', paper: 'the rule of the paper' };

const waitStep: Claim = {
  id: 'wait-step',
  system: 'perf',
  part: 8,
  title: 'Sensitivity to the time that a WAIT takes on the device',
  source: 'Not in the paper; this time has not been published',
  shows: [],
  note: 'Adaptive waits read this time from the device.',
  mixes: Object.assign(
    {},
    ...STEPS_NS.flatMap((waitStepNs) => {
      const more = { set: { waitStepNs }, duration: '6ms', warmup: '2ms' };
      return [
        compared(PERF, `d ${waitStepNs}`, ['B:size=1MiB', 'D:size=16,think=1us'], more),
        compared(PERF, `m ${waitStepNs}`, ['B:size=1MiB', 'M:size=16'], more),
      ];
    }),
  ),
  checks: Object.entries(WORDS).flatMap(([word, rule]) =>
    STEPS_NS.flatMap((step) => [
      {
        what: `average latency of D, relative to bare, ${step} ns, ${rule}`,
        unit: 'x',
        measure: (runs: Runs) => factor(runs, `d ${step}`, avgUs, 'D', [word, 'bare']),
        expect: reported('-'),
      },
      {
        what: `bandwidth of B alongside M, ${step} ns, ${rule}`,
        unit: 'Gbps',
        measure: (runs: Runs) => gbps(runs[`m ${step} ${word}`], 'B'),
        expect: reported('-'),
      },
      {
        what: `rate of M, ${step} ns, ${rule}`,
        unit: 'Mmps',
        measure: (runs: Runs) => mmps(runs[`m ${step} ${word}`], 'M'),
        expect: reported('-'),
      },
    ]),
  ),
};

export const CLAIMS: readonly Claim[] = [cx540g, cx540gList, waitStep];
