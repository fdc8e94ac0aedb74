/** PeRF isolates messages: small messages alongside large ones. */

import { avgUs, gbps, mmps, p50Us, p99Us } from '../../mix/metrics.ts';
import type { Claim, Runs } from '../engine/claim.ts';
import { compared, factor, PERF } from '../engine/compared.ts';
import { atLeast, atMost, reported } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';

const LONG = { duration: '20ms', warmup: '2ms' };
const ONE_WAY = ['write', 'send'];

const bMD: Claim = {
  id: 'b-m-d',
  system: 'perf',
  part: 1,
  title: 'B_App, M_App and D_App together',
  source:
    'Not in the paper, whose rule does not help D_App here: the traffic of M_App alone keeps the egress FIFO full',
  shows: [],
  smoke: true,
  mixes: compared(PERF, 'all', ['B:size=1MiB', 'M:size=16', 'D:size=16,think=1us'], {
    duration: '20ms',
    warmup: '2ms',
  }),
  checks: [
    {
      what: 'bandwidth of B',
      unit: 'Gbps',
      measure: (runs: Runs) => gbps(runs['all perf'], 'B'),
      expect: atLeast(85),
    },
    {
      what: 'rate of M',
      unit: 'Mmps',
      measure: (runs: Runs) => mmps(runs['all perf'], 'M'),
      expect: atLeast(12),
    },
    {
      what: 'average latency of D, relative to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'all', avgUs, 'D'),
      expect: atMost(0.4),
    },
    {
      what: "average latency of D, relative to bare, the paper's rule",
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'all', avgUs, 'D', ['paper', 'bare']),
      expect: reported(0.86),
    },
  ],
};

const UNDER = { ...LONG, policy: 'perf' };

const B = 'B:size=1MiB';

const M = 'M:size=16';

const D = 'D:size=16';

const D_PAUSES = 'D:size=16,think=5us';

const latency = (word: string) => (runs: Runs) =>
  avgUs(runs[`b d ${word}`], 'D') / avgUs(runs[`d ${word}`], 'D');

const besideAlone: Claim = {
  id: 'beside-alone',
  system: 'perf',
  part: 1,
  title: 'B_App alongside D_App and alongside M_App, relative to each alone',
  source:
    'PeRF 5.2.2, fig. 8: B gets 0.9 of its bandwidth alone, the latency of D is about 1.5 times that alone',
  shows: ['perf-5.2.2-fig8-perf'],
  note:
    'D_App posts one request at a time, without pauses as in the paper. B and M together fill the link: if B had 0.9 of its ' +
    'bandwidth, 11 M/s would be left for M.',
  mixes: {
    b: mix('cx6-100g', B, LONG),
    m: mix('cx6-100g', M, LONG),
    'd no pause': mix('cx6-100g', D, LONG),
    'd pauses': mix('cx6-100g', D_PAUSES, LONG),
    'b d no pause': mix('cx6-100g', [B, D], UNDER),
    'b d pauses': mix('cx6-100g', [B, D_PAUSES], UNDER),
    'b m': mix('cx6-100g', [B, M], UNDER),
  },
  checks: [
    ...['no pause', 'pauses'].map((word) => ({
      what: 'bandwidth of B alongside D, relative to alone',
      at: word,
      unit: 'x',
      measure: (runs: Runs) => gbps(runs[`b d ${word}`], 'B') / gbps(runs.b, 'B'),
      expect: atLeast(0.9),
    })),
    {
      what: 'average latency of D alongside B, relative to alone',
      unit: 'x',
      measure: latency('no pause'),
      expect: atMost(1.5),
    },
    {
      what: 'average latency of D alongside B, relative to alone, pauses of 5 us',
      unit: 'x',
      measure: latency('pauses'),
      expect: reported('1.5'),
    },
    {
      what: 'bandwidth of B alongside M, relative to alone',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs['b m'], 'B') / gbps(runs.b, 'B'),
      expect: reported('0.9'),
    },
    {
      what: 'rate of M alongside B, relative to alone',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs['b m'], 'M') / mmps(runs.m, 'M'),
      expect: reported('-'),
    },
  ],
};

const OPERATIONS = ['write', 'send', 'read'];

const THINKS = ['0', '5us'];

const nameOf = (op: string, think: string) => `${op} think=${think}`;

const bandwidth = (word: string, least: number) =>
  OPERATIONS.flatMap((op) =>
    THINKS.map((think) => ({
      what: `bandwidth of B, relative to bare, ${word === 'perf' ? 'adaptive waits' : "the paper's rule"}`,
      at: nameOf(op, think),
      unit: 'x',
      measure: (runs: Runs) => factor(runs, nameOf(op, think), gbps, 'B', [word, 'bare']),
      expect: atLeast(least),
    })),
  );

const slowdown = (what: string, ops: readonly string[], think: string, measure: typeof avgUs, most: number) =>
  ops.map((op) => ({
    what,
    at: op,
    unit: 'x',
    measure: (runs: Runs) => factor(runs, nameOf(op, think), measure, 'D'),
    expect: atMost(most),
  }));

const dBesideB: Claim = {
  id: 'd-beside-b',
  system: 'perf',
  part: 1,
  title: 'D_App waits less next to B_App, and B_App keeps its bandwidth',
  source: 'PeRF 5.2.2, fig. 8(a), and 5.2.5, fig. 12(a)',
  shows: ['perf-5.2.2-fig8-perf', 'perf-5.2.5-fig12a'],
  note: 'The paper reports -75 % for SEND and -67 % for READ. Without a pause, D synchronises with the period of B: see d-think-time.',
  mixes: Object.assign(
    {},
    ...OPERATIONS.flatMap((op) =>
      THINKS.map((think) =>
        compared(
          PERF,
          nameOf(op, think),
          [`B:size=1MiB,op=${op}`, `D:size=16,op=${op},think=${think}`],
          LONG,
        ),
      ),
    ),
  ),
  checks: [
    ...bandwidth('perf', 0.92),
    ...bandwidth('paper', 0.95),
    ...slowdown('average latency of D to bare, no pause', ONE_WAY, '0', avgUs, 0.33),
    ...slowdown('average latency of D to bare, pauses of 5 us', ONE_WAY, '5us', avgUs, 0.4),
    ...slowdown('p99 latency of D to bare, pauses of 5 us', ONE_WAY, '5us', p99Us, 0.52),
    ...slowdown('average latency of D to bare, READ, pauses of 5 us', ['read'], '5us', avgUs, 0.52),
    {
      what: 'average latency of D, relative to bare, READ, no pause',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, nameOf('read', '0'), avgUs, 'D'),
      expect: reported(0.33),
    },
  ],
};

const THINK_TIMES = ['0', '1us', '2us', '3us', '4us', '5us'];

const WORDS = { perf: 'adaptive waits', paper: 'the rule of the paper' };

const dThinkTime: Claim = {
  id: 'd-think-time',
  system: 'perf',
  part: 1,
  title: 'What D_App gains, as a function of its mean pause',
  source: 'Not in the paper, which does not give the pauses of D_App',
  shows: [],
  note: 'Two loops without a pause synchronise with each other, so a single point proves nothing.',
  mixes: Object.assign(
    {},
    ...THINK_TIMES.map((think) =>
      compared(PERF, think, ['B:size=1MiB', `D:size=16,think=${think}`], { duration: '10ms', warmup: '2ms' }),
    ),
  ),
  checks: THINK_TIMES.flatMap((think) =>
    Object.entries(WORDS).flatMap(([word, rule]) => [
      {
        what: `average latency of D, relative to bare, pauses of ${think}, ${rule}`,
        unit: 'x',
        measure: (runs: Runs) => factor(runs, think, avgUs, 'D', [word, 'bare']),
        expect: reported('-'),
      },
      {
        what: `p99 latency of D, relative to bare, pauses of ${think}, ${rule}`,
        unit: 'x',
        measure: (runs: Runs) => factor(runs, think, p99Us, 'D', [word, 'bare']),
        expect: reported('-'),
      },
    ]),
  ),
};

const M_OPERATIONS = [...ONE_WAY, 'read'];

/** Outstanding READs per queue pair, at most. */
const RD_ATOMIC = 16;

/** The highest message rate of one queue pair, in millions per second. */
const QP_MMPS = 12.4;

const mBesideB: Claim = {
  id: 'm-beside-b',
  system: 'perf',
  part: 1,
  title: 'M_App keeps its rate next to B_App, and B_App keeps its bandwidth',
  source: 'PeRF 5.2.2, fig. 8(b), and 5.2.5, fig. 12(b)',
  shows: ['perf-5.2.2-fig8-perf', 'perf-5.2.5-fig12b'],
  note: "Outstanding READs bound the READ rate, so the paper's factor of 3 does not follow. The round trip is that of a D_App in the same run.",
  mixes: {
    ...Object.assign(
      {},
      ...M_OPERATIONS.map((op) => compared(PERF, op, [`B:size=1MiB,op=${op}`, `M:size=16,op=${op}`])),
    ),
    'round trip': mix(
      'cx6-100g',
      ['B:size=1MiB,op=read', 'M:size=16,op=read', 'D:size=16,op=read,think=5us'],
      { policy: 'perf' },
    ),
  },
  checks: [
    ...ONE_WAY.flatMap((op) => [
      {
        what: 'bandwidth of B',
        at: op,
        unit: 'Gbps',
        measure: (runs: Runs) => gbps(runs[`${op} perf`], 'B'),
        expect: atLeast(87),
      },
      {
        what: 'rate of M',
        at: op,
        unit: 'Mmps',
        measure: (runs: Runs) => mmps(runs[`${op} perf`], 'M'),
        expect: atLeast(9),
      },
      {
        what: 'rate of M, relative to bare',
        at: op,
        unit: 'x',
        measure: (runs: Runs) => factor(runs, op, mmps, 'M'),
        expect: atLeast(2.7),
      },
      {
        what: "bandwidth of B, the paper's rule",
        at: op,
        unit: 'Gbps',
        measure: (runs: Runs) => gbps(runs[`${op} paper`], 'B'),
        expect: atLeast(87),
      },
      {
        what: "rate of M, the paper's rule",
        at: op,
        unit: 'Mmps',
        measure: (runs: Runs) => mmps(runs[`${op} paper`], 'M'),
        expect: atLeast(9),
      },
    ]),
    {
      what: 'READ rate of M, relative to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'read', mmps, 'M'),
      expect: atLeast(2),
    },
    {
      what: 'READ rate of M, relative to its bound (12.4 Mmps, or 16 per round trip)',
      unit: 'x',
      measure: (runs: Runs) => {
        const bound = Math.min(QP_MMPS, RD_ATOMIC / p50Us(runs['round trip'], 'D'));
        return mmps(runs['round trip'], 'M') / bound;
      },
      expect: atLeast(0.9),
    },
    {
      what: 'READ bandwidth of B, relative to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'read', gbps, 'B'),
      expect: reported('-'),
    },
  ],
};

/** 256 bytes in each direction. */
const RPING = 'D:name=rping,size=256,op=send,think=5us';

const threeApplications: Claim = {
  id: 'three-applications',
  system: 'perf',
  part: 1,
  title: 'File transfers like those of Crail, a key-value store like HERD, and rping',
  source: 'PeRF 5.3, fig. 16(a): rping waits less than 1 us longer',
  shows: ['perf-5.3-fig16a-crail'],
  note: 'Stand-ins for the programs. justitia-applications compares them with Justitia.',
  mixes: {
    alone: mix('cx6-100g', RPING, { duration: '20ms', warmup: '2ms' }),
    all: mix(
      'cx6-100g',
      ['B:name=crail,size=1MiB', 'M:name=herd,size=32-64,batch=8,depth=32,op=send', RPING],
      { policy: 'perf', duration: '20ms', warmup: '2ms' },
    ),
  },
  checks: [
    {
      what: 'latency added to rping, compared with alone',
      unit: 'us',
      measure: (runs: Runs) => avgUs(runs.all, 'rping') - avgUs(runs.alone, 'rping'),
      expect: atMost(1),
    },
  ],
};

export const CLAIMS: readonly Claim[] = [bMD, besideAlone, dBesideB, dThinkTime, mBesideB, threeApplications];
