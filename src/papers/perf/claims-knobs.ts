/** PeRF's parameters: their defaults and their effects. */

import { avgUs, gbps, mmps } from '../../mix/metrics.ts';
import { mixApp } from '../../mix/mixture.ts';
import { LARGE_BYTES } from '../../policies/kit/classifier.ts';
import { perfOptions } from '../../policies/perf/options.ts';
import type { Claim, Runs } from '../engine/claim.ts';
import { atLeast, range, ratio, reported, rises } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';

const OPTIONS = perfOptions.parse({});

const PARAMETERS = {
  'least mean size of a B_App, bytes': [1024, LARGE_BYTES],
  'sample period of the queues, ms': [5, OPTIONS.samplePeriodNs / 1e6],
  'window, ms': [1000, OPTIONS.windowNs / 1e6],
  Th_M_App: [5, OPTIONS.thMApp],
  'SUB_MSG_SIZE, bytes': [16384, OPTIONS.subMsgSizeBytes],
  '0_WAIT_UNIT, bytes': [1024, OPTIONS.zeroWaitUnitBytes],
  QNum_allow: [1, OPTIONS.qNumAllow],
  'QNum_capa of a ConnectX-6': [9, OPTIONS.qNumCapa],
} as const;

/** Messages of M per `bytes` of B. */
const opportunities = (runs: Runs, word: string, bytes: number) =>
  mmps(runs[word], 'M') / ((gbps(runs[word], 'B') * 1000) / 8 / bytes);

const defaults: Claim = {
  id: 'defaults',
  system: 'perf',
  part: 4,
  title: "The paper's parameters are the defaults; 16 waits give small messages 16 times the opportunities",
  source: 'PeRF 3.3, 3.5.1, 4.1, 4.2, appendix A',
  shows: ['perf-3.3-params-classifier', 'perf-4.1-params-lmse', 'perf-4.2-params-mqse'],
  note: "An opportunity is a turn of B's queue pair: one packet on the bare device, one sub-message between two batches of waits under the policy.",
  mixes: {
    bare: mix('cx6-100g', ['B:size=1MiB', 'M:size=16']),
    paper: mix('cx6-100g', ['B:size=1MiB', 'M:size=16'], { policy: 'perf:paper' }),
  },
  checks: [
    ...Object.entries(PARAMETERS).map(([what, [paper, ours]]) => ({
      what,
      unit: '',
      measure: () => ours,
      expect: range(paper, paper),
    })),
    {
      what: 'messages of M per turn of B, bare',
      unit: 'x',
      measure: (runs: Runs) => opportunities(runs, 'bare', 4096),
      expect: ratio(1),
    },
    {
      what: 'messages of M per turn of B, 0_WAIT_NUM 16',
      unit: 'x',
      measure: (runs: Runs) => opportunities(runs, 'paper', 16384),
      expect: ratio(16),
    },
  ],
};

const B = 'B:size=1MiB';

const M = 'M:size=16';

const D = 'D:size=16,think=1us';

const MANY_B = 'B:name=multi,size=1MiB,qps=8';

/** More tenants than processing units, and enough time for two rotations of the longest tenant slots. */
const TWELVE_B = `${B},count=12`;

const ROUNDS = { duration: '28ms', warmup: '4ms' };

const LONG = { duration: '10ms', warmup: '2ms' };

interface Knob {
  knob: string;
  values: readonly (number | string)[];
  apps: readonly string[];
  duration?: string;
  warmup?: string;
}

/** The mixture that a knob is tested with, and what is measured. */
const KNOBS: readonly Knob[] = [
  { knob: 'feedPieces', values: [1, 2, 4, 16], apps: [B, M] },
  { knob: 'utilisation', values: [0.9, 0.95, 0.975, 0.99, 1], apps: [B, M, D] },
  { knob: 'turnBytes', values: [16384, 65536, 262144], apps: [B, MANY_B, D] },
  { knob: 'turnRequests', values: [16, 64, 256], apps: [B, 'M:size=16,qps=8'] },
  { knob: 'qpIsolation', values: ['auto', 'never'], apps: [B, MANY_B, D] },
  { knob: 'rotation', values: ['auto', 'off'], apps: [TWELVE_B, M], ...ROUNDS },
  { knob: 'slotNs', values: [50e3, 200e3, 1e6], apps: [TWELVE_B, M], ...ROUNDS },
  { knob: 'readFifoPart', values: [0.33, 0.67, 1.33], apps: [`${B},op=read`, `${M},op=read`] },
  { knob: 'thMApp', values: [5, 200], apps: [B, M] },
  { knob: 'samplePeriodNs=1e5,windowNs', values: [1e6, 1e9], apps: [B, `${D},stop=3ms`] },
  { knob: 'qNumCapa', values: [3, 9, 16], apps: ['M:name=multi,size=16,qps=16', M] },
  { knob: 'isolation', values: ['auto', 'always', 'never'], apps: [B] },
];

/** The metric of each application: bandwidth, rate or latency. */
function metricOf(app: string) {
  const { kind, name = kind } = mixApp(app).spec;
  if (kind === 'B') return { what: `bandwidth of ${name}`, unit: 'Gbps', name, measure: gbps };
  if (kind === 'M') return { what: `rate of ${name}`, unit: 'Mmps', name, measure: mmps };
  return { what: `average latency of ${name}`, unit: 'us', name, measure: avgUs };
}

const knobs: Claim = {
  id: 'knobs',
  system: 'perf',
  part: 4,
  title: 'Effects of the other knobs',
  source: 'Not in the paper; these are the values of the table in docs/policies/perf.md',
  shows: [],
  mixes: Object.fromEntries(
    KNOBS.flatMap(({ knob, values, apps, ...time }) =>
      values.map((value) => [
        `${knob}=${value}`,
        mix('cx6-100g', apps, { ...LONG, ...time, policy: `perf:${knob}=${value}` }),
      ]),
    ),
  ),
  checks: KNOBS.flatMap(({ knob, values, apps }) =>
    values.flatMap((value) =>
      apps.map(metricOf).map(({ what, unit, name, measure }) => ({
        what: `${knob}=${value}: ${what}`,
        unit,
        measure: (runs: Runs) => measure(runs[`${knob}=${value}`], name),
        expect: reported('-'),
      })),
    ),
  ),
};

const KIB = 1024;

/** Values in KiB: from 8 KiB to half the egress FIFO, and values outside that range. */
const FLAT = [8, 12, 16, 20, 24];

const OUTSIDE = [1, 2, 4, 32, 48, 64];

const DEFAULT = 16;

/** The policy limits pieces to half the FIFO of 48 KiB. For longer pieces, it is configured with a larger FIFO. */
const HALF = 24;

const BELIEVES = `,egressFifoBytes=${1024 * KIB}`;

function lines(size: number) {
  const flat = FLAT.includes(size);
  return [
    {
      what: flat ? 'bandwidth of B, relative to 16 KiB' : `bandwidth of B, ${size} KiB`,
      at: flat ? `${size} KiB` : undefined,
      unit: 'x',
      measure: (runs: Runs) => gbps(runs[size], 'B') / gbps(runs[DEFAULT], 'B'),
      expect: flat ? range(0.92, 1.08) : reported('-'),
    },
    {
      what: flat ? 'rate of M, relative to 16 KiB' : `rate of M, ${size} KiB`,
      at: flat ? `${size} KiB` : undefined,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[size], 'M') / mmps(runs[DEFAULT], 'M'),
      expect: flat ? range(0.92, 1.08) : reported('-'),
    },
    {
      what: `average latency of D, ${size} KiB`,
      unit: 'us',
      measure: (runs: Runs) => avgUs(runs[`d ${size}`], 'D'),
      expect: reported('-'),
    },
  ];
}

const subMsgSize: Claim = {
  id: 'sub-msg-size',
  system: 'perf',
  part: 4,
  title: 'SUB_MSG_SIZE makes little difference from 8 KiB to half the egress FIFO',
  source: 'PeRF appendix A, fig. 17(a)',
  shows: ['perf-A-fig17a'],
  note: 'Not in the paper: pieces longer than half the egress FIFO leave the link idle.',
  mixes: Object.fromEntries(
    [...FLAT, ...OUTSIDE].flatMap((size) => {
      const policy = `perf:subMsgSizeBytes=${size * KIB},zeroWaitUnitBytes=${KIB}${size > HALF ? BELIEVES : ''}`;
      return [
        [`${size}`, mix('cx6-100g', ['B:size=1MiB', 'M:size=16'], { policy })],
        [`d ${size}`, mix('cx6-100g', ['B:size=1MiB', 'D:size=16,think=1us'], { policy })],
      ];
    }),
  ),
  checks: [...FLAT, ...OUTSIDE].flatMap(lines),
};

/** Values in bytes; 900 is the paper's PeRF_S. */
const UNITS = [512, 900, 1024, 1536, 2048, 4096];

const LAST = UNITS.length - 1;

const zeroWaitUnit: Claim = {
  id: 'zero-wait-unit',
  system: 'perf',
  part: 4,
  title: 'A larger 0_WAIT_UNIT gives B_App more and M_App less',
  source: 'PeRF appendix A, fig. 17(b)',
  shows: ['perf-A-fig17b'],
  note: 'With fixed waits, because adaptive waits do not depend on the unit.',
  mixes: Object.fromEntries(
    UNITS.flatMap((unit) => {
      const policy = `perf:waits=fixed,zeroWaitUnitBytes=${unit}`;
      return [
        [`m ${unit}`, mix('cx6-100g', ['B:size=1MiB', 'M:size=16'], { policy })],
        [`d ${unit}`, mix('cx6-100g', ['B:size=1MiB', 'D:size=16,think=1us'], { policy })],
      ];
    }),
  ),
  checks: [
    ...UNITS.slice(1).flatMap((unit, i) => [
      {
        what: 'bandwidth of B, relative to the next smaller unit',
        at: `${unit}`,
        unit: 'x',
        measure: (runs: Runs) => gbps(runs[`m ${unit}`], 'B') / gbps(runs[`m ${UNITS[i]}`], 'B'),
        expect: atLeast(1),
      },
      {
        what: 'rate of M with the next smaller unit, relative to this unit',
        at: `${unit}`,
        unit: 'x',
        measure: (runs: Runs) => mmps(runs[`m ${UNITS[i]}`], 'M') / mmps(runs[`m ${unit}`], 'M'),
        expect: atLeast(1),
      },
    ]),
    {
      what: 'bandwidth of B with 4096, relative to 512',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs[`m ${UNITS[LAST]}`], 'B') / gbps(runs[`m ${UNITS[0]}`], 'B'),
      expect: rises(),
    },
    {
      what: 'rate of M with 512, relative to 4096',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[`m ${UNITS[0]}`], 'M') / mmps(runs[`m ${UNITS[LAST]}`], 'M'),
      expect: rises(),
    },
    ...UNITS.map((unit) => ({
      what: `average latency of D with ${unit}`,
      unit: 'us',
      measure: (runs: Runs) => avgUs(runs[`d ${unit}`], 'D'),
      expect: reported('-'),
    })),
  ],
};

export const CLAIMS: readonly Claim[] = [defaults, knobs, subMsgSize, zeroWaitUnit];
