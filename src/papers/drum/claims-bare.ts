/** DRUM's claims about bare devices. */

import { avgUs, mmps } from '../../mix/metrics.ts';
import type { Claim, Runs } from '../engine/claim.ts';
import { equal, falls, ratio, reported, rises } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';

const beside = (connections: number) =>
  mix(
    'cx5-40g',
    ['D:name=fg,size=32,think=1us', `M:name=bg,size=1KB,batch=20,depth=20,qps=${connections - 1}`],
    {
      set: { qpcEntries: 20 },
      duration: '20ms',
    },
  );

const measure = (runs: Runs) => avgUs(runs.hundred, 'fg') / avgUs(runs.fifty, 'fg');

const connectionsRaw: Claim = {
  id: 'connections-raw',
  system: 'bare',
  part: 5,
  title: 'One 32 B message at a time alongside 49 and 99 other connections',
  source: 'DRUM V, test case 1, fig. 10',
  shows: ['drum-V-tc1-fig10-raw'],
  note: "The paper's factor is that of the 80th percentile. It does not give the load and message sizes of the other connections.",
  mixes: { fifty: beside(50), hundred: beside(100) },
  checks: [
    { what: 'latency alongside 99 connections, relative to 49', unit: 'x', measure, expect: rises() },
    { what: 'the same, compared with the factor in the paper', unit: 'x', measure, expect: reported(3.41) },
  ],
};

const BATCHES = [1, 5, 10];

const app = (batch: number, think: string) => `M:size=1KB,batch=${batch},depth=${batch},think=${think}`;

const pollRate: Claim = {
  id: 'poll-rate',
  system: 'bare',
  part: 5,
  title:
    'The rate of an application that posts a batch after each completion is bounded by how often it polls',
  source: 'DRUM II-C, fig. 2(b)',
  shows: ['drum-II.C-fig2b'],
  mixes: Object.fromEntries(
    BATCHES.flatMap((batch) =>
      ['20us', '5us'].map((think) => [
        `${batch} ${think}`,
        mix('cx5-40g', app(batch, think), { duration: '20ms' }),
      ]),
    ),
  ),
  checks: [
    ...BATCHES.map((batch) => ({
      what: 'rate with pauses of 5 us, relative to 20 us',
      at: `batches of ${batch}`,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[`${batch} 5us`], 'M') / mmps(runs[`${batch} 20us`], 'M'),
      expect: rises(),
    })),
    ...BATCHES.slice(1).map((batch) => ({
      what: `rate with batches of ${batch}, relative to single requests`,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[`${batch} 20us`], 'M') / mmps(runs['1 20us'], 'M'),
      expect: ratio(batch),
    })),
  ],
};

const TRANSPORTS = ['rc', 'uc'];

const set = { qpcEntries: 20 };

const UD = 'M:op=send,transport=ud,size=16,qps=9';

const qpCache20: Claim = {
  id: 'qp-cache-20',
  system: 'bare',
  part: 5,
  title: 'More connections than fit into a cache of 20 contexts',
  source: 'DRUM II-D, fig. 2(c)',
  shows: ['drum-II.D-fig2c'],
  note: 'Datagrams do not need one queue pair per connection: 9 queue pairs serve all.',
  mixes: {
    ...Object.fromEntries(
      TRANSPORTS.flatMap((transport) =>
        [16, 64].map((n) => [
          `${transport} ${n}`,
          mix('cx5-40g', `M:size=16,transport=${transport},qps=${n}`, { set }),
        ]),
      ),
    ),
    ud: mix('cx5-40g', UD, { set }),
    'ud, own cache': mix('cx5-40g', UD),
  },
  checks: [
    ...TRANSPORTS.map((transport) => ({
      what: `rate of 64 queue pairs relative to 16, ${transport}`,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[`${transport} 64`], 'M') / mmps(runs[`${transport} 16`], 'M'),
      expect: falls(),
    })),
    {
      what: "rate of datagrams, relative to the device's default cache",
      unit: 'x',
      measure: (runs: Runs) => mmps(runs.ud, 'M') / mmps(runs['ud, own cache'], 'M'),
      expect: equal(0.01),
    },
  ],
};

const APPS = [64, 400, 900];

const qpCacheOwn: Claim = {
  id: 'qp-cache-own',
  system: 'bare',
  part: 5,
  title: "More connections than fit into the device's default cache (450 contexts)",
  source: 'DRUM II-D, fig. 2(c); size of the cache: StaR',
  shows: ['drum-II.D-fig2c'],
  note: 'DRUM reports the drop at 20 connections, other sources at hundreds.',
  mixes: Object.fromEntries(APPS.map((n) => [`${n}`, mix('cx5-40g', `M:size=16,qps=${n}`)])),
  checks: [
    {
      what: 'rate of 900 queue pairs relative to 64',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[900], 'M') / mmps(runs[64], 'M'),
      expect: falls(),
    },
    {
      what: 'rate of 400 queue pairs relative to 64',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[400], 'M') / mmps(runs[64], 'M'),
      expect: equal(0.05),
    },
  ],
};

const D = 'D:name=fg,size=1KB,think=1us';

const besideBatches = (batch: number) =>
  mix('cx5-40g', [D, `M:name=bg,size=1KB,batch=${batch},depth=${batch}`], { duration: '10ms' });

const slowdownOf = (runs: Runs) => avgUs(runs.hundred, 'fg') / avgUs(runs.twenty, 'fg');

const wqeBatches: Claim = {
  id: 'wqe-batches',
  system: 'bare',
  part: 5,
  title: 'Single 1 KB messages alongside batches of 20 and of 100 requests',
  source: 'DRUM II-A, fig. 2(a)',
  shows: ['drum-II.A-fig2a'],
  note: "The paper's factor is that of the 80th percentile, with background traffic that it does not describe.",
  mixes: { twenty: besideBatches(20), hundred: besideBatches(100) },
  checks: [
    {
      what: 'latency alongside batches of 100, relative to 20',
      unit: 'x',
      measure: slowdownOf,
      expect: rises(),
    },
    {
      what: 'the same, compared with the factor in the paper',
      unit: 'x',
      measure: slowdownOf,
      expect: reported(3.9),
    },
  ],
};

export const CLAIMS: readonly Claim[] = [connectionsRaw, pollRate, qpCache20, qpCacheOwn, wqeBatches];
