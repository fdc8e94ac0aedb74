import { avgUs, gbps, mmps, p99Us } from '../../mix/metrics.ts';
import type { Claim, Runs } from '../engine/claim.ts';
import { closedForm, falls, range, ratio, reported, rises } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';
import { RACKS, RACKS_B, RACKS_D } from './racks.ts';

const D = 'D:size=16,think=1us';

const cx6BBesideD: Claim = {
  id: 'cx6-b-beside-d',
  system: 'bare',
  part: 2,
  title: 'B_App and D_App: the one keeps its bandwidth, the other waits',
  source: 'PeRF 2.3.1, fig. 2(b), and 5.2.2, fig. 8',
  shows: ['perf-2.3.1-fig2b', 'perf-5.2.2-fig8a-rdma'],
  smoke: true,
  mixes: { alone: mix('cx6-100g', D), both: mix('cx6-100g', ['B:size=1MiB', D]) },
  checks: [
    {
      what: 'bandwidth of B',
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs.both, 'B'),
      expect: range(97.9, 97.9, 1.5),
    },
    {
      what: 'latency of D alone',
      unit: 'us',
      measure: (runs: Runs) => avgUs(runs.alone, 'D'),
      expect: range(1, 1.25),
    },
    {
      what: 'latency of D to its latency alone',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs.both, 'D') / avgUs(runs.alone, 'D'),
      expect: range(3, 5),
    },
    {
      what: 'p99 of D to its p99 alone',
      unit: 'x',
      measure: (runs: Runs) => p99Us(runs.both, 'D') / p99Us(runs.alone, 'D'),
      expect: rises(),
    },
  ],
};

const OPERATIONS = ['write', 'send', 'read'];

const cx6BBesideM: Claim = {
  id: 'cx6-b-beside-m',
  system: 'bare',
  part: 2,
  title: 'B_App and M_App: the one keeps its bandwidth, the other loses its rate',
  source: 'PeRF 2.3.1, fig. 2(a), and 5.2.2, fig. 8',
  shows: ['perf-2.3.1-fig2a', 'perf-5.2.2-fig8a-rdma'],
  smoke: true,
  mixes: Object.fromEntries(
    OPERATIONS.flatMap((op) => [
      [`alone ${op}`, mix('cx6-100g', `M:size=16,op=${op}`)],
      [op, mix('cx6-100g', [`B:size=1MiB,op=${op}`, `M:size=16,op=${op}`])],
    ]),
  ),
  checks: OPERATIONS.flatMap((op) => [
    {
      what: `bandwidth of B, ${op}`,
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs[op], 'B'),
      expect: range(94.8, 96.9, 1.5),
    },
    {
      what: `rate of M to its rate alone, ${op}`,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[op], 'M') / mmps(runs[`alone ${op}`], 'M'),
      expect: falls(2),
    },
  ]),
};

const MANY = [9, 16, 32];

const cx6MessageRate: Claim = {
  id: 'cx6-message-rate',
  system: 'bare',
  part: 2,
  title: 'Messages per second of one queue pair, and of the device',
  source: 'PeRF 2.3.2 and its artefact',
  shows: ['perf-2.3.2-capacity'],
  smoke: true,
  mixes: {
    one: mix('cx6-100g', 'M:size=16'),
    ...Object.fromEntries(
      MANY.map((n) => [`${n}`, mix('cx6-100g', `M:size=16,qps=${n}`, { duration: '2ms', warmup: '500us' })]),
    ),
  },
  checks: [
    {
      what: 'one queue pair',
      unit: 'M/s',
      measure: (runs: Runs) => mmps(runs.one, 'M'),
      expect: closedForm(12.4),
    },
    ...MANY.map((n) => ({
      what: '9 queue pairs or more',
      at: `${n}`,
      unit: 'M/s',
      measure: (runs: Runs) => mmps(runs[n], 'M'),
      expect: range(105, 112),
    })),
  ],
};

/** Link in Gbps, and processing units, as the paper has them. */
const DEVICES = { 'cx5-40g': [40, 8], 'cx6-100g': [100, 16] } as const;

/** Queue pairs that no device has units for. */
const MANY_QPS = 24;

const devices: Claim = {
  id: 'devices',
  system: 'bare',
  part: 2,
  title: 'The devices of the paper: link and processing units',
  source: 'PeRF 5.1, table 1',
  shows: ['perf-5.1-table1'],
  note:
    "Units are counted as the message rate of 24 queue pairs to that of one. The paper's 105 of 13 Mmps with 9 queue " +
    'pairs does not fit its 16 units: the model has 9. The ConnectX-6 of InfiniBand is not modelled.',
  mixes: Object.fromEntries(
    Object.keys(DEVICES).flatMap((profile) => [
      [`b ${profile}`, mix(profile, 'B:size=1MiB')],
      [`one ${profile}`, mix(profile, 'M:size=16', { duration: '2ms', warmup: '500us' })],
      [`many ${profile}`, mix(profile, `M:size=16,qps=${MANY_QPS}`, { duration: '2ms', warmup: '500us' })],
    ]),
  ),
  checks: Object.entries(DEVICES).flatMap(([profile, [link, units]]) => [
    {
      what: `bandwidth of B alone, headers of 4 KiB packets left out: ${profile}`,
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs[`b ${profile}`], 'B'),
      expect: range(0.97 * link, link),
    },
    {
      what: `rate of ${MANY_QPS} queue pairs to that of one: ${profile}`,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[`many ${profile}`], 'M') / mmps(runs[`one ${profile}`], 'M'),
      expect: reported(units),
    },
  ]),
};

const M = 'M:size=16';

const B = 'B:size=1MiB';

const ETS = { scheduler: 'ets', etsWeights: '16,1' };

const ets: Claim = {
  id: 'ets',
  system: 'bare',
  part: 8,
  title: 'Weighted bytes, 16 for B_App and 1 for the others: B_App keeps its bandwidth, D_App waits',
  source: 'PeRF 5.2.1, fig. 7(b) and footnote 4',
  shows: ['perf-5.2.1-fig7b-ets', 'perf-5.2.1-ets-d'],
  mixes: {
    d: mix('cx6-100g', D),
    b: mix('cx6-100g', B),
    round: mix('cx6-100g', [B, M]),
    bd: mix('cx6-100g', [`${B},class=0`, `${D},class=1`], { set: ETS }),
    bm: mix('cx6-100g', [`${B},class=0`, `${M},class=1`], { set: ETS }),
  },
  checks: [
    {
      what: 'bandwidth of B beside M to its bandwidth alone',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs.bm, 'B') / gbps(runs.b, 'B'),
      expect: rises(0.9),
    },
    {
      what: 'rate of M beside B to that with a packet round',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs.bm, 'M') / mmps(runs.round, 'M'),
      expect: rises(),
    },
    {
      what: 'latency of D beside B to its latency alone: no help',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs.bd, 'D') / avgUs(runs.d, 'D'),
      expect: rises(3),
    },
  ],
};

const STRICT_PRIORITY = { scheduler: 'sp' };

const strictPriority: Claim = {
  id: 'strict-priority',
  system: 'bare',
  part: 8,
  title: 'Strict priority protects D_App, and lets M_App starve B_App',
  source: 'PeRF 5.2.1, fig. 7',
  shows: ['perf-5.2.1-fig7a', 'perf-5.2.1-fig7b-sp'],
  note: 'A lower class is not served while a queue pair of a higher one holds a posted request: an assumption.',
  smoke: true,
  mixes: {
    d: mix('cx6-100g', D),
    b: mix('cx6-100g', 'B:size=1MiB'),
    bd: mix('cx6-100g', ['B:size=1MiB,class=1', `${D},class=0`], { set: STRICT_PRIORITY }),
    bm: mix('cx6-100g', ['B:size=1MiB,class=1', 'M:size=16,class=0'], { set: STRICT_PRIORITY }),
  },
  checks: [
    {
      what: 'latency of D beside B to its latency alone',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs.bd, 'D') / avgUs(runs.d, 'D'),
      expect: ratio(1),
    },
    {
      what: 'bandwidth of B beside D',
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs.bd, 'B'),
      expect: range(97.9, 97.9, 1.5),
    },
    {
      what: 'bandwidth of B beside M to its bandwidth alone',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs.bm, 'B') / gbps(runs.b, 'B'),
      expect: falls(),
    },
  ],
};

const beside = (...apps: string[]) => mix('cx6-100g', [...apps, RACKS_D], RACKS);

const twoRacks: Claim = {
  id: 'two-racks',
  system: 'bare',
  part: 9,
  title: 'DCQCN on the trunk of two racks does not help D_App on its own host',
  source: 'PeRF 5.2.4',
  shows: ['perf-5.2.4-native'],
  note:
    'About 10 us more than without B_Apps, or than under the policy: the paper does not say which, nor how long its ' +
    'switches queue. Its B_Apps start 20 s apart; here they run from the beginning, and DCQCN has 50 ms to settle.',
  mixes: { alone: beside(), one: beside(RACKS_B(1)), three: beside(RACKS_B(3)) },
  checks: [
    {
      what: 'latency of D beside the B_App of its host to its latency alone',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs.one, 'D') / avgUs(runs.alone, 'D'),
      expect: rises(),
    },
    {
      what: 'latency of D beside three B_Apps, more than alone',
      unit: 'us',
      measure: (runs: Runs) => avgUs(runs.three, 'D') - avgUs(runs.alone, 'D'),
      expect: reported(10),
    },
  ],
};

const twoRacksQueues: Claim = {
  id: 'two-racks-queues',
  system: 'bare',
  part: 9,
  title: 'More B_Apps on the trunk of two racks: D_App waits in the queues of the switches',
  source: 'PeRF 5.2.4, fig. 11',
  shows: ['perf-5.2.4-queueing'],
  note: 'The paper sees it under its policy. Bare, in the model, D waits no longer beside three than beside one.',
  mixes: {
    one: mix('cx6-100g', [RACKS_B(1), RACKS_D], RACKS),
    three: mix('cx6-100g', [RACKS_B(3), RACKS_D], RACKS),
  },
  checks: [
    {
      what: 'latency of D beside three B_Apps to that beside one',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs.three, 'D') / avgUs(runs.one, 'D'),
      expect: rises(),
    },
  ],
};

export const CLAIMS: readonly Claim[] = [
  cx6BBesideD,
  cx6BBesideM,
  cx6MessageRate,
  devices,
  ets,
  strictPriority,
  twoRacks,
  twoRacksQueues,
];
