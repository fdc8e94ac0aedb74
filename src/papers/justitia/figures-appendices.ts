/** Justitia's figures of the appendices. */

import type { Figure } from '../engine/figure.ts';
import { mix } from '../engine/mix.ts';
import { bandwidth, median, overCopies, p99, rate, stated, toAlone } from '../engine/panels.ts';
import { B, L, NETWORK, type Network, on, onInfiniBand, T } from './kinds.ts';

const LONG = { duration: '20ms' };
const X = 'eRPC and storage';

const figure26: Figure<number> = {
  number: '26',
  title: 'Several latency applications',
  source: 'Justitia appendix B, fig. 26: latencies grow equally for all',
  note: 'In the model they do not grow, because a round of so few small packets is far from full.',
  x: { title: 'applications', values: [1, 2, 4, 8, 16] },
  mix: (count) => onInfiniBand([`D:size=16,think=1us,count=${count}`], { duration: '5ms' }),
  policies: ['none'],
  panels: [
    ...overCopies<number>('D', 'Average latency of an application', 'us', (app) => app.latencyUs?.avg ?? 0),
    ...overCopies<number>('D', 'Message rate of an application', 'Mmps', (app) => app.messageRateMmps),
  ].filter(({ title }) => title !== 'Average latency of an application: all'),
};

const figure27: Figure<number> = {
  number: '27',
  title: 'Several throughput applications',
  source: 'Justitia appendix B, fig. 27: shares are almost equal',
  x: { title: 'applications', values: [1, 2, 4, 8, 16] },
  mix: (count) => onInfiniBand([`M:size=16,batch=64,count=${count}`], { duration: '5ms' }),
  policies: ['none'],
  panels: overCopies('M', 'Message rate of an application', 'Mmps', (app) => app.messageRateMmps),
};

const figure28: Figure<Network> = {
  number: '28',
  title: 'A latency application alongside a throughput application on the bare device',
  source: 'Justitia appendix B, fig. 28: neither is noticeably affected, except on iWARP',
  note: 'iWARP is not modelled.',
  x: NETWORK,
  mix: on(L, T),
  policies: ['none'],
  series: { 'D alone': on(L), 'M alone': on(T) },
  panels: [median<Network>('D'), p99<Network>('D'), rate<Network>('M')],
};

const aloneL = () => onInfiniBand([L]);

const figure29a: Figure<number> = {
  number: '29a',
  title: 'A latency application alongside a growing number of bandwidth applications',
  source:
    'Justitia appendix B.1, fig. 29(a): a second one raises the median another 2.65 times and the tail 3.79 times',
  note: "The text states 139 times alongside 16 applications, without saying whether of the median or the tail. Alongside two, the model shows half the paper's effect: a burst blocks D only when all three units are busy.",
  x: { title: 'bandwidth applications', values: [1, 2, 4, 8, 16] },
  mix: (count) => onInfiniBand([`B:size=1MB,count=${count}`, L], { duration: '60ms', warmup: '2ms' }),
  policies: ['none'],
  panels: [
    toAlone(
      median('D', { log: true }),
      aloneL,
      stated('none', '3.1.1', [
        [1, 1.85],
        [2, 1.85 * 2.65],
        [16, 139],
      ]),
    ),
    toAlone(
      p99('D', { log: true }),
      aloneL,
      stated('none', '3.1.1, B.1', [
        [1, 2.23],
        [2, 2.23 * 3.79],
      ]),
    ),
  ],
};

const figure29b: Figure<number> = {
  number: '29b',
  title: 'A throughput application alongside a growing number of bandwidth applications',
  source: 'Justitia appendix B.1, fig. 29(b): the rate falls by 90 % alongside 16',
  x: { title: 'bandwidth applications', values: [1, 2, 4, 8, 16] },
  mix: (count) => onInfiniBand([`B:size=1MB,count=${count}`, T], { duration: '40ms', warmup: '2ms' }),
  policies: ['none'],
  panels: [rate('M'), toAlone(rate('M'), () => onInfiniBand([T]), stated('none', 'B.1', [[16, 0.1]]))],
};

const figure30: Figure<string> = {
  number: '30',
  title: 'At 100 Gbps: a latency application alongside 5 MB messages',
  source: 'Justitia appendix C.1, fig. 30',
  note: 'ConnectX-5 stands in for ConnectX-4.',
  x: { title: '', values: ['100 Gbps'] },
  mix: () => mix('cx5-100g', ['B:size=5MB', L], LONG),
  series: { alone: () => mix('cx5-100g', L, LONG) },
  panels: [median('D'), p99('D'), bandwidth('B')],
};

const figure31: Figure<string> = {
  number: '31',
  title: 'At 100 Gbps: a throughput application alongside 5 MB messages',
  source: 'Justitia appendix C.1, fig. 31',
  note: 'ConnectX-5 stands in for ConnectX-4.',
  x: { title: '', values: ['100 Gbps'] },
  mix: () => mix('cx5-100g', ['B:size=5MB', T], LONG),
  series: { alone: () => mix('cx5-100g', T, LONG) },
  panels: [rate('M'), bandwidth('B')],
};

const RPC = 'M:op=send,transport=ud,size=32,batch=8,depth=8,qps=4';

const alone = () => onInfiniBand([RPC], { duration: '5ms' });

const FASST = 'FaSST and storage';

const figure32: Figure<string> = {
  number: '32',
  title: 'Datagrams in batches of 8 from 4 threads, like those of FaSST, alongside storage traffic',
  source:
    'Justitia appendix C.2, fig. 32: 9.8 Mrps alone; 74 % less alongside storage, 2.5 times that under Justitia',
  note: "A stand-in with one bandwidth application; the paper's storage system ran on 16 machines. perf lets one of the four queue pairs send at a time.",
  x: { title: '', values: [FASST] },
  mix: () => onInfiniBand([B, RPC]),
  series: { alone },
  panels: [
    rate('M', { paper: stated('alone', 'C.2', [[FASST, 9.8]]) }),
    toAlone(rate('M'), alone, [
      ...stated('none', 'C.2', [[FASST, 0.26]]),
      ...stated('justitia', 'C.2: 2.5 times 0.26', [[FASST, 2.5 * 0.26]]),
    ]),
    bandwidth('B'),
  ],
};

const SMALL_RPC = 'D:op=send,transport=ud,size=32,think=1us';

const smallRpcAlone = () => onInfiniBand([SMALL_RPC], { duration: '5ms' });

const figure33a: Figure<string> = {
  number: '33a',
  title: 'Latency of single datagrams, like those of eRPC, alongside storage traffic',
  source: 'Justitia appendix C.2, fig. 33(a)',
  note: "A stand-in with one bandwidth application; the paper's storage system ran on 16 machines. Factors of 67 and 40 would require several bandwidth applications, as fig. 29(a) shows.",
  x: { title: '', values: [X] },
  mix: () => onInfiniBand([B, SMALL_RPC]),
  series: { alone: smallRpcAlone },
  panels: [
    median('D'),
    p99('D'),
    toAlone(median('D', { log: true }), smallRpcAlone, [
      ...stated('none', 'C.2', [[X, 67]]),
      ...stated('justitia', 'C.2: 67 / 56.9', [[X, 67 / 56.9]]),
    ]),
    toAlone(p99('D', { log: true }), smallRpcAlone, [
      ...stated('none', 'C.2', [[X, 40]]),
      ...stated('justitia', 'C.2: 40 / 32.2', [[X, 40 / 32.2]]),
    ]),
    bandwidth('B'),
  ],
};

const BATCHED_RPC = 'M:op=send,transport=ud,size=32,batch=8,depth=8,qps=2';

const batchedRpcAlone = () => onInfiniBand([BATCHED_RPC], { duration: '5ms' });

const figure33b: Figure<string> = {
  number: '33b',
  title: 'Datagrams in batches of 8 from 2 threads, like those of eRPC, alongside storage traffic',
  source: 'Justitia appendix C.2, fig. 33(b): 93 % less alongside storage, 9.7 times that under Justitia',
  note: "A stand-in with one bandwidth application; the paper's storage system ran on 16 machines. perf lets one of the two queue pairs send at a time.",
  x: { title: '', values: [X] },
  mix: () => onInfiniBand([B, BATCHED_RPC]),
  series: { alone: batchedRpcAlone },
  panels: [
    rate('M'),
    toAlone(rate('M'), batchedRpcAlone, [
      ...stated('none', 'C.2', [[X, 0.07]]),
      ...stated('justitia', 'C.2: 9.7 times 0.07', [[X, 9.7 * 0.07]]),
    ]),
    bandwidth('B'),
  ],
};

const D = 'D:size=16,think=1us';

const BULK = 'B:size=1MB';

const REMOTE_READ = 'op=read,host=1,to=0';

/** Both kinds of traffic leave host 0: its WRITEs, and responses to the READs of host 1. */
const WAYS = {
  'D reads, B writes': [`${D},${REMOTE_READ}`, BULK],
  'D writes, B reads': [D, `${BULK},${REMOTE_READ}`],
};

type Way = keyof typeof WAYS;

const figure34: Figure<Way> = {
  number: '34',
  title: 'READs of a remote host against local WRITEs',
  source: 'Justitia appendix C.3, fig. 34: (a), (b) D reads; (c), (d) B reads',
  x: { title: '', values: Object.keys(WAYS) as Way[] },
  mix: (way) => onInfiniBand(WAYS[way]),
  series: { 'D alone': (way) => onInfiniBand(WAYS[way].filter((app) => app.startsWith('D'))) },
  panels: [median<Way>('D'), p99<Way>('D'), bandwidth<Way>('B')],
};

export const FIGURES: readonly Figure[] = [
  figure26,
  figure27,
  figure28,
  figure29a,
  figure29b,
  figure30,
  figure31,
  figure32,
  figure33a,
  figure33b,
  figure34,
];
