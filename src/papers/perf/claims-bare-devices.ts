/** PeRF's claims about bare devices: rates, latencies, hardware schedulers, two racks. */

import { avgUs, gbps, mmps, p99Us } from '../../mix/metrics.ts';
import type { Claim, Runs } from '../engine/claim.ts';
import { closedForm, falls, range, ratio, reported, rises } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';
import { RACKS, RACKS_B, RACKS_D } from './claims-network.ts';

const D = 'D:size=16,think=1us';

const cx6BBesideD: Claim = {
  id: 'cx6-b-beside-d',
  system: 'bare',
  part: 2,
  title: 'Next to B_App, which keeps its bandwidth, D_App waits longer',
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
      what: 'latency of D, relative to alone',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs.both, 'D') / avgUs(runs.alone, 'D'),
      expect: range(3, 5),
    },
    {
      what: 'p99 latency of D, relative to alone',
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
  title: 'Next to B_App, which keeps its bandwidth, M_App loses message rate',
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
      what: `rate of M relative to alone, ${op}`,
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
  title: 'Message rate of one queue pair and of the whole device',
  source: "PeRF 2.3.2, and the paper's artefact",
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

/** Link in Gbps and processing units, according to the paper. */
const DEVICES = { 'cx5-40g': [40, 8], 'cx6-100g': [100, 16] } as const;

/** More queue pairs than any device has processing units. */
const MANY_QPS = 24;

const devices: Claim = {
  id: 'devices',
  system: 'bare',
  part: 2,
  title: "Link bandwidth and processing units of the paper's devices",
  source: 'PeRF 5.1, table 1',
  shows: ['perf-5.1-table1'],
  note:
    "The number of units is estimated as the message rate of 24 queue pairs divided by that of one. The paper's 105 Mmps with 9 queue " +
    'pairs, 13 Mmps each, contradict its 16 units: the model has 9. The InfiniBand ConnectX-6 is not modelled.',
  mixes: Object.fromEntries(
    Object.keys(DEVICES).flatMap((profile) => [
      [`b ${profile}`, mix(profile, 'B:size=1MiB')],
      [`one ${profile}`, mix(profile, 'M:size=16', { duration: '2ms', warmup: '500us' })],
      [`many ${profile}`, mix(profile, `M:size=16,qps=${MANY_QPS}`, { duration: '2ms', warmup: '500us' })],
    ]),
  ),
  checks: Object.entries(DEVICES).flatMap(([profile, [link, units]]) => [
    {
      what: `payload bandwidth of B alone: ${profile}`,
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs[`b ${profile}`], 'B'),
      expect: range(0.97 * link, link),
    },
    {
      what: `rate of ${MANY_QPS} queue pairs relative to one: ${profile}`,
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
  title:
    'ETS with weight 16 for B_App and 1 for the others: B_App keeps its bandwidth, but D_App still waits',
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
      what: 'bandwidth of B alongside M, relative to alone',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs.bm, 'B') / gbps(runs.b, 'B'),
      expect: rises(0.9),
    },
    {
      what: 'rate of M alongside B, relative to the packet round',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs.bm, 'M') / mmps(runs.round, 'M'),
      expect: rises(),
    },
    {
      what: 'latency of D alongside B, relative to alone: ETS does not help',
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
  note: 'Assumption: a lower class is not served while a queue pair of a higher class has a posted request.',
  smoke: true,
  mixes: {
    d: mix('cx6-100g', D),
    b: mix('cx6-100g', 'B:size=1MiB'),
    bd: mix('cx6-100g', ['B:size=1MiB,class=1', `${D},class=0`], { set: STRICT_PRIORITY }),
    bm: mix('cx6-100g', ['B:size=1MiB,class=1', 'M:size=16,class=0'], { set: STRICT_PRIORITY }),
  },
  checks: [
    {
      what: 'latency of D alongside B, relative to alone',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs.bd, 'D') / avgUs(runs.d, 'D'),
      expect: ratio(1),
    },
    {
      what: 'bandwidth of B alongside D',
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs.bd, 'B'),
      expect: range(97.9, 97.9, 1.5),
    },
    {
      what: 'bandwidth of B alongside M, relative to alone',
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
  title: 'DCQCN between two racks does not help D_App against the B_App on its own host',
  source: 'PeRF 5.2.4',
  shows: ['perf-5.2.4-native'],
  note:
    'The paper reports about 10 us more, but not relative to what: no B_Apps, or its policy. It does not give the queueing delay of ' +
    'its switches either. Its B_Apps start 20 s apart; here they run from the beginning, and DCQCN has 50 ms to settle.',
  mixes: { alone: beside(), one: beside(RACKS_B(1)), three: beside(RACKS_B(3)) },
  checks: [
    {
      what: 'latency of D alongside the B_App on its host, relative to alone',
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs.one, 'D') / avgUs(runs.alone, 'D'),
      expect: rises(),
    },
    {
      what: 'latency that three B_Apps add to D',
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
  title: "More B_Apps between two racks: D_App waits in the switches' queues",
  source: 'PeRF 5.2.4, fig. 11',
  shows: ['perf-5.2.4-queueing'],
  note: 'The paper observes this under its policy. On the bare model, three B_Apps delay D no more than one does.',
  mixes: {
    one: mix('cx6-100g', [RACKS_B(1), RACKS_D], RACKS),
    three: mix('cx6-100g', [RACKS_B(3), RACKS_D], RACKS),
  },
  checks: [
    {
      what: 'latency of D alongside three B_Apps, relative to one',
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
