import { mmps, p50Us, p99Us } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { falls, reported, rises } from '../../engine/expect.ts';

const rpc = (qps: number) => `M:op=send,transport=ud,size=32,batch=8,depth=8,qps=${qps}`;
const D = 'D:op=send,transport=ud,size=32,think=1us';
const B = 'B:size=1MB';
const long = { duration: '20ms' };
const rate = (runs: Runs, qps: number) =>
  mmps(runs[`rpc ${qps} beside`], 'M') / mmps(runs[`rpc ${qps}`], 'M');

export default {
  part: 10,
  title: 'Small datagrams in batches of 8 (as of FaSST and eRPC) beside storage traffic',
  source: 'Justitia 3.2, appendix C.2, figs. 32, 33 (justitia-C.2-fig32-bare, justitia-C.2-fig33-bare)',
  note: 'A stand-in, with one bandwidth application; the storage system of the paper had 16 machines.',
  mixes: {
    'rpc 4': mix('cx3-56g', rpc(4)),
    'rpc 4 beside': mix('cx3-56g', [B, rpc(4)], long),
    'rpc 2': mix('cx3-56g', rpc(2)),
    'rpc 2 beside': mix('cx3-56g', [B, rpc(2)], long),
    d: mix('cx3-56g', D),
    bd: mix('cx3-56g', [B, D], long),
  },
  checks: [
    {
      what: 'rate of 4 threads to that alone',
      unit: 'x',
      measure: (runs: Runs) => rate(runs, 4),
      expect: falls(),
    },
    { what: 'the same, FaSST', unit: 'x', measure: (runs: Runs) => rate(runs, 4), expect: reported(0.26) },
    {
      what: 'rate of 2 threads to that alone',
      unit: 'x',
      measure: (runs: Runs) => rate(runs, 2),
      expect: falls(),
    },
    { what: 'the same, eRPC', unit: 'x', measure: (runs: Runs) => rate(runs, 2), expect: reported(0.07) },
    {
      what: 'median latency to that alone',
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
} satisfies Claim;
