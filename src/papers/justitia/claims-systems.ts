/** Stand-ins for systems on RDMA under Justitia: DARE and Crail, FaSST and eRPC. */

import { gbps, mmps, p50Us, p99Us } from '../../mix/metrics.ts';
import type { Claim, Runs } from '../engine/claim.ts';
import { compared, factor, JUSTITIA, justitiaWith } from '../engine/compared.ts';
import { atMost, falls, range, reported, rises } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';
import { b, d, m, ofBoth, RULES, SETTLED } from './declared.ts';

const RUN = { ...SETTLED, profile: 'cx3-56g' };

/** Each queue pair counts as one application. */
const BY_FLOW = justitiaWith('granularity=flow');

const DARE = d('name=dare,size=8-1024,think=1us');
const CRAIL = b('name=crail,size=1MB,qps=8');

const dareAndCrail: Claim = {
  id: 'dare-and-crail',
  system: 'justitia',
  part: 7,
  title: 'Small requests, like those of DARE, alongside 8 parallel 1 MB writes, like those of Crail',
  source: 'Justitia 6.1, fig. 16: the tail of DARE improves 3.4 times, and Crail keeps 81 %, 8/9 expected',
  shows: ['justitia-6.1-fig16a', 'justitia-6.1-fig16b'],
  note:
    'Stand-ins. The 8 parallel writes count as separate applications (granularity=flow), as in the paper. On the bare ' +
    'device of the model, they hurt DARE far more than 4.6 times, so Justitia may improve it more than 3.4 times.',
  mixes: {
    dare: mix('cx3-56g', DARE),
    ...compared(BY_FLOW, 'both', [CRAIL, DARE], RUN),
  },
  checks: [
    ...ofBoth(
      { what: 'p99 latency of DARE, bare relative to Justitia', unit: 'x', expect: rises(3.4) },
      (runs, word) => factor(runs, 'both', p99Us, 'dare', ['bare', word]),
    ),
    ...ofBoth(
      { what: 'median latency of DARE, relative to alone: close to it', unit: 'x', expect: atMost(1.3) },
      (runs, word) => p50Us(runs[`both ${word}`], 'dare') / p50Us(runs.dare, 'dare'),
    ),
    ...ofBoth(
      { what: 'bandwidth of Crail, relative to bare', unit: 'x', expect: range(0.81, 0.889, 0.03) },
      (runs, word) => factor(runs, 'both', gbps, 'crail', [word, 'bare']),
    ),
  ],
};

const rpc = (threads: number) => m(`op=send,transport=ud,size=32,batch=8,depth=8,qps=${threads}`);
const SINGLE_RPC = d('op=send,transport=ud,size=32,think=1us');

const rateFactor = (threads: number) => (runs: Runs, word: string) =>
  factor(runs, `${threads} threads`, mmps, 'M', [word, 'bare']);

const storage = (name: string) =>
  ofBoth(
    {
      what: 'bandwidth of storage, relative to alone',
      at: name,
      unit: 'x',
      expect: range(0.5, 0.5, 0.05),
    },
    (runs, word) => gbps(runs[`${name} ${word}`], 'B') / gbps(runs.b, 'B'),
  );

const rpcAndStorage: Claim = {
  id: 'rpc-and-storage',
  system: 'justitia',
  part: 7,
  title: 'Datagrams like those of FaSST and eRPC alongside storage traffic',
  source:
    'Justitia appendix C.2, figs. 32, 33: FaSST gets 2.5 times its rate, eRPC 9.7 times; its latencies improve 56.9 times ' +
    '(median) and 32.2 times (p99)',
  shows: ['justitia-C.2-fig32', 'justitia-C.2-fig33'],
  note:
    'Stand-ins with one bandwidth application. On the bare device of the model, it increases latency 2 times, not 67 times ' +
    'as the storage system of the paper, so factors are reported and only their direction is expected.',
  mixes: {
    ...compared(JUSTITIA, '4 threads', [b(), rpc(4)], { ...RUN, duration: '22ms', warmup: '2ms' }),
    ...compared(JUSTITIA, '2 threads', [b(), rpc(2)], { ...RUN, duration: '22ms', warmup: '2ms' }),
    ...compared(JUSTITIA, 'single', [b(), SINGLE_RPC], RUN),
  },
  checks: [
    ...[4, 2].flatMap((threads) => [
      ...ofBoth(
        { what: `rate of ${threads} threads, relative to bare`, unit: 'x', expect: rises() },
        rateFactor(threads),
      ),
      {
        what: `the same, ${threads === 4 ? 'FaSST' : 'eRPC'}`,
        unit: 'x',
        measure: (runs: Runs) => rateFactor(threads)(runs, 'justitia'),
        expect: reported(threads === 4 ? 2.5 : 9.7),
      },
    ]),
    ...[
      { name: 'median', of: p50Us, paper: 56.9 },
      { name: 'p99', of: p99Us, paper: 32.2 },
    ].flatMap(({ name, of, paper }) => [
      ...ofBoth(
        { what: `${name} latency of single datagrams, relative to bare`, unit: 'x', expect: falls() },
        (runs, word) => factor(runs, 'single', of, 'D', [word, 'bare']),
      ),
      {
        what: `${name} latency, bare relative to Justitia, eRPC`,
        unit: 'x',
        measure: (runs: Runs) => factor(runs, 'single', of, 'D', ['bare', 'justitia']),
        expect: reported(paper),
      },
    ]),
  ],
};

const storageHalf: Claim = {
  id: 'storage-half',
  system: 'justitia',
  part: 7,
  title: 'Storage traffic that counts as one application gets half alongside FaSST and eRPC',
  source: 'Justitia appendix C.2',
  shows: ['justitia-C.2-storage-half'],
  note: 'A stand-in with one bandwidth application and one queue pair.',
  mixes: {
    b: mix('cx3-56g', b(), { duration: '10ms' }),
    ...compared(RULES, '4 threads', [b(), rpc(4)], { ...RUN, duration: '22ms', warmup: '2ms' }),
    ...compared(RULES, '2 threads', [b(), rpc(2)], { ...RUN, duration: '22ms', warmup: '2ms' }),
    ...compared(RULES, 'single', [b(), SINGLE_RPC], RUN),
  },
  checks: ['4 threads', '2 threads', 'single'].flatMap(storage),
};

export const CLAIMS: readonly Claim[] = [dareAndCrail, rpcAndStorage, storageHalf];
