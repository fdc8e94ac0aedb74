/** Justitia's claims about bare devices: applications of one kind, rate limiters, systems like FaSST and DARE. */

import { avgUs, gbps, latencySpread, mmps, p50Us, p99Us, spread } from '../../mix/metrics.ts';
import type { Claim, Runs } from '../engine/claim.ts';
import { equal, falls, range, ratio, reported, rises } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';

const COUNTS = [2, 8, 32];

const cx3LatencyApps: Claim = {
  id: 'cx3-latency-apps',
  system: 'bare',
  part: 6,
  title: 'Many latency applications on an InfiniBand ConnectX-3 all wait longer, by the same amount',
  source: 'Justitia appendix B, fig. 26',
  shows: ['justitia-B-fig26'],
  note:
    'The text does not give their number. In the model, they only compete near the message rate of the device: ' +
    '2 and 8 wait as long as one, 32 wait 3 % longer.',
  mixes: {
    1: mix('cx3-56g', 'D:size=16'),
    ...Object.fromEntries(COUNTS.map((n) => [n, mix('cx3-56g', `D:size=16,count=${n}`)])),
  },
  checks: COUNTS.flatMap((n) => [
    {
      what: 'mean latency, relative to one application',
      at: `${n}`,
      unit: 'x',
      measure: (runs: Runs) => avgUs(runs[n], 'D') / avgUs(runs[1], 'D'),
      expect: rises(1),
    },
    {
      what: 'largest mean latency, relative to the smallest',
      at: `${n}`,
      unit: 'x',
      measure: (runs: Runs) => latencySpread(runs[n], 'D'),
      expect: equal(0.05),
    },
    {
      what: 'largest message rate, relative to the smallest',
      at: `${n}`,
      unit: 'x',
      measure: (runs: Runs) => spread(runs[n], 'D'),
      expect: equal(0.05),
    },
  ]),
};

const M_COUNTS = [2, 4, 8, 16];

const cx3MessageRateApps: Claim = {
  id: 'cx3-message-rate-apps',
  system: 'bare',
  part: 6,
  title: 'Many message-rate applications on an InfiniBand ConnectX-3 all get the same rate',
  source: 'Justitia appendix B, fig. 27',
  shows: ['justitia-B-fig27'],
  note: 'The text does not give their number.',
  mixes: Object.fromEntries(
    M_COUNTS.map((n) => [n, mix('cx3-56g', `M:size=16,batch=64,count=${n}`, { duration: '40ms' })]),
  ),
  checks: M_COUNTS.map((n) => ({
    what: 'largest message rate, relative to the smallest',
    at: `${n}`,
    unit: 'x',
    measure: (runs: Runs) => spread(runs[n], 'M'),
    expect: equal(0.05),
    deviation:
      n === 16
        ? 'the first run took 5 ms, which are too few turns of a greedy device: up to 1.244 x'
        : undefined,
  })),
};

const DEVICES = ['cx3-56g', 'cx4-40g'];

const D = 'D:size=16,think=1us';

const M = 'M:size=16,batch=64';

const latencyBesideMessageRate: Claim = {
  id: 'latency-beside-message-rate',
  system: 'bare',
  part: 6,
  title: 'A latency and a message-rate application do not hurt each other on InfiniBand and RoCEv2',
  source: 'Justitia appendix B, fig. 28',
  shows: ['justitia-B-fig28'],
  note: 'The paper also reports that latency suffers on iWARP, for which there is no profile.',
  mixes: Object.fromEntries(
    DEVICES.flatMap((profile) => [
      [`d ${profile}`, mix(profile, D)],
      [`m ${profile}`, mix(profile, M)],
      [`both ${profile}`, mix(profile, [D, M])],
    ]),
  ),
  checks: DEVICES.flatMap((profile) => [
    ...[avgUs, p99Us].map((latency) => ({
      what: `${latency === avgUs ? 'mean' : 'p99'} latency, relative to alone`,
      at: profile,
      unit: 'x',
      measure: (runs: Runs) => latency(runs[`both ${profile}`], 'D') / latency(runs[`d ${profile}`], 'D'),
      expect: equal(latency === avgUs ? 0.1 : 0.2),
    })),
    {
      what: 'message rate, relative to alone',
      at: profile,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[`both ${profile}`], 'M') / mmps(runs[`m ${profile}`], 'M'),
      expect: equal(0.05),
    },
  ]),
};

const LIMIT_GBPS = 2;

const B = 'B:size=64KiB';

const LIMITED = `${B},rate=${LIMIT_GBPS}Gbps`;

const early = { duration: '1900us', warmup: '100us' };

const rateChange: Claim = {
  id: 'rate-change',
  system: 'bare',
  part: 10,
  title: 'A hardware rate limiter takes effect after 2 ms',
  source: 'Justitia 6.3 and appendix E.1',
  shows: ['justitia-6.3-hw-limits'],
  note:
    'The limit is set when the queue pair is created. The paper has 2 lossless queues and needs milliseconds to move a ' +
    'queue pair between them; the model has neither limit, but 8 classes.',
  mixes: {
    'before, no limit': mix('cx6-100g', B, early),
    before: mix('cx6-100g', LIMITED, early),
    after: mix('cx6-100g', LIMITED, { duration: '22ms', warmup: '2100us' }),
  },
  checks: [
    {
      what: 'bandwidth in the first 1.9 ms, relative to no limit',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs.before, 'B') / gbps(runs['before, no limit'], 'B'),
      expect: equal(0.01),
    },
    {
      what: 'bandwidth after 2.1 ms, relative to the limit',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs.after, 'B') / LIMIT_GBPS,
      expect: range(0.88, 1.1, 0.01),
    },
  ],
};

const rpc = (qps: number) => `M:op=send,transport=ud,size=32,batch=8,depth=8,qps=${qps}`;

const RPC_D = 'D:op=send,transport=ud,size=32,think=1us';

const BULK = 'B:size=1MB';

const long = { duration: '20ms' };

const rate = (runs: Runs, qps: number) =>
  mmps(runs[`rpc ${qps} beside`], 'M') / mmps(runs[`rpc ${qps}`], 'M');

const rpcBesideStorage: Claim = {
  id: 'rpc-beside-storage',
  system: 'bare',
  part: 10,
  title: 'Small datagrams in batches of 8, like those of FaSST and eRPC, alongside storage traffic',
  source: 'Justitia 3.2, appendix C.2, figs. 32, 33',
  shows: ['justitia-C.2-fig32-bare', 'justitia-C.2-fig33-bare'],
  note: "A stand-in with one bandwidth application; the paper's storage system ran on 16 machines.",
  mixes: {
    'rpc 4': mix('cx3-56g', rpc(4)),
    'rpc 4 beside': mix('cx3-56g', [BULK, rpc(4)], long),
    'rpc 2': mix('cx3-56g', rpc(2)),
    'rpc 2 beside': mix('cx3-56g', [BULK, rpc(2)], long),
    d: mix('cx3-56g', RPC_D),
    bd: mix('cx3-56g', [BULK, RPC_D], long),
  },
  checks: [
    {
      what: 'rate of 4 threads, relative to alone',
      unit: 'x',
      measure: (runs: Runs) => rate(runs, 4),
      expect: falls(),
    },
    { what: 'the same, FaSST', unit: 'x', measure: (runs: Runs) => rate(runs, 4), expect: reported(0.26) },
    {
      what: 'rate of 2 threads, relative to alone',
      unit: 'x',
      measure: (runs: Runs) => rate(runs, 2),
      expect: falls(),
    },
    { what: 'the same, eRPC', unit: 'x', measure: (runs: Runs) => rate(runs, 2), expect: reported(0.07) },
    {
      what: 'median latency, relative to alone',
      unit: 'x',
      measure: (runs: Runs) => p50Us(runs.bd, 'D') / p50Us(runs.d, 'D'),
      expect: rises(),
    },
    {
      what: 'median latency, eRPC',
      unit: 'x',
      measure: (runs: Runs) => p50Us(runs.bd, 'D') / p50Us(runs.d, 'D'),
      expect: reported(67),
    },
    {
      what: 'p99 latency, eRPC',
      unit: 'x',
      measure: (runs: Runs) => p99Us(runs.bd, 'D') / p99Us(runs.d, 'D'),
      expect: reported(40),
    },
  ],
};

const REPLICATION = 'D:size=8-1024,think=1us';

const STORAGE = 'B:size=1MB,qps=8';

const measure = (runs: Runs) => p99Us(runs.both, 'D') / p99Us(runs.d, 'D');

const storageAndReplication: Claim = {
  id: 'storage-and-replication',
  system: 'bare',
  part: 10,
  title: 'Small requests, like those of DARE, alongside 8 parallel 1 MB writes, like those of Crail',
  source: 'Justitia 3.2, fig. 6',
  shows: ['justitia-3.2-fig6'],
  note: 'A stand-in. A device on which 16 competitors increase latency 139 times cannot keep the effect of 8 down to 4.6 times.',
  mixes: {
    d: mix('cx3-56g', REPLICATION),
    b: mix('cx3-56g', STORAGE),
    both: mix('cx3-56g', [STORAGE, REPLICATION], { duration: '40ms' }),
  },
  checks: [
    { what: 'p99 of the small requests, relative to alone', unit: 'x', measure, expect: rises() },
    { what: 'the same, compared with the factor in the paper', unit: 'x', measure, expect: reported(4.6) },
    {
      what: 'bandwidth alongside the small requests',
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs.both, 'B'),
      expect: ratio(51.1),
    },
    {
      what: 'bandwidth alongside the small requests, relative to alone',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs.both, 'B') / gbps(runs.b, 'B'),
      expect: equal(0.05),
    },
  ],
};

export const CLAIMS: readonly Claim[] = [
  cx3LatencyApps,
  cx3MessageRateApps,
  latencyBesideMessageRate,
  rateChange,
  rpcBesideStorage,
  storageAndReplication,
];
