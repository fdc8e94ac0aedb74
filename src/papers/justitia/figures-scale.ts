/** Justitia's figures of sections 6.2 to 6.6: more applications, hosts and congestion. */

import type { Figure } from '../engine/figure.ts';
import { average, bandwidth, median, overCopies, p99, rate, stated, toAlone } from '../engine/panels.ts';
import { B, L, on, onInfiniBand, ROCE, T, withDcqcn } from './kinds.ts';

const figure17a: Figure<number> = {
  number: '17a',
  title: 'A growing number of bandwidth applications',
  source: 'Justitia 6.2, fig. 17(a): shares are equal, and add up to almost the line rate',
  x: { title: 'applications', values: [2, 4, 8, 16] },
  mix: (count) => onInfiniBand([`B:size=1MB,count=${count}`]),
  panels: overCopies('B', 'Bandwidth of an application', 'Gbps', (app) => app.throughputGbps),
};

const figure17b: Figure<number> = {
  number: '17b',
  title: 'A growing number of throughput applications',
  source: 'Justitia 6.2, fig. 17(b): roughly equal numbers of messages',
  x: { title: 'applications', values: [2, 4, 8, 16] },
  mix: (count) => onInfiniBand([`M:size=16,batch=64,count=${count}`], { duration: '5ms' }),
  panels: overCopies('M', 'Message rate of an application', 'Mmps', (app) => app.messageRateMmps),
};

const d = (bytes: number) => `D:size=${bytes},think=1us`;

const figure18: Figure<number> = {
  number: '18',
  title: 'Latency applications of various message sizes alongside a bandwidth application',
  source:
    'Justitia 6.2, fig. 18: they are isolated over a wide range; the bandwidth application always gets half',
  note: 'perf classifies D as a bandwidth application from 1 KiB on: then B gets half of the link, and D does not use the other half.',
  x: { title: 'message size', values: [16, 64, 256, 1024, 4096], log: true, bytes: true },
  mix: (bytes) => onInfiniBand([B, d(bytes)]),
  series: { alone: (bytes) => onInfiniBand([d(bytes)]) },
  panels: [median<number>('D'), p99<number>('D'), bandwidth<number>('B')],
};

const alone = () => withDcqcn(L);

const figure19: Figure<string> = {
  number: '19',
  title: 'With DCQCN: a latency application alongside a bandwidth application',
  source: 'Justitia 6.3, fig. 19: Justitia improves latencies by up to 8.6 times',
  note: 'ConnectX-4 at 10 Gbps stands in for ConnectX-4 Lx.',
  x: { title: '', values: ['10 Gbps'] },
  mix: () => withDcqcn(B, L),
  series: { alone },
  panels: [median('D'), p99('D'), toAlone(p99('D'), alone), bandwidth('B')],
};

const figure20: Figure<string> = {
  number: '20',
  title: 'With DCQCN: a throughput application alongside a bandwidth application',
  source: 'Justitia 6.3, fig. 20: Justitia improves throughput by 2.6 times',
  note: 'ConnectX-4 at 10 Gbps stands in for ConnectX-4 Lx.',
  x: { title: '', values: ['10 Gbps'] },
  mix: () => withDcqcn(B, T),
  series: { 'M alone': () => withDcqcn(T), 'B alone': () => withDcqcn(B) },
  panels: [rate('M'), bandwidth('B')],
};

const figure21: Figure<string> = {
  number: '21',
  title: 'With DCQCN: a latency application alongside a throughput application',
  source: 'Justitia 6.3, fig. 21',
  note: 'The figure has no caption in the text; this is the pair that figs. 19 and 20 leave out. ConnectX-4 at 10 Gbps stands in for ConnectX-4 Lx.',
  x: { title: '', values: ['10 Gbps'] },
  mix: () => withDcqcn(L, T),
  series: { 'D alone': () => withDcqcn(L), 'M alone': () => withDcqcn(T) },
  panels: [median('D'), p99('D'), rate('M')],
};

/** The latency application gets one hardware queue; the other two applications share the other. */
const queues = (...apps: readonly string[]) => ({
  ...on(...apps)(ROCE),
  set: { scheduler: 'sp' },
});

const figure22: Figure<string> = {
  number: '22',
  title: 'Three applications on two hardware priority queues',
  source:
    'Justitia 6.3, fig. 22: within a queue, the throughput application is not isolated without Justitia',
  x: { title: '', values: ['all three'] },
  mix: () => queues(`${L},class=0`, `${B},class=1`, `${T},class=1`),
  series: { 'D alone': () => queues(`${L},class=0`), 'M alone': () => queues(`${T},class=1`) },
  panels: [median('D'), p99('D'), rate('M'), bandwidth('B')],
};

const EIGHT_B = ['1MB', '10MB', '100MB', '1GB'].map((size) => `B:name=b${size},size=${size},count=2`);

const aloneInCluster = () => onInfiniBand(['D:size=16,think=1us']);

const X = '8 and 8';

const figure23: Figure<string> = {
  number: '23',
  title: '8 latency applications and 8 bandwidth applications with messages of 1 MB to 1 GB',
  source:
    'Justitia 6.4, fig. 23: Justitia improves the median 26.5 times and the tail 12.7 times, and guarantees 8/9',
  x: { title: '', values: [X] },
  mix: () => onInfiniBand([...EIGHT_B, 'D:size=16,think=1us,count=8'], { duration: '60ms', warmup: '20ms' }),
  series: { 'D alone': aloneInCluster },
  panels: [
    median('D', { log: true, paper: stated('D alone', '6.4', [[X, 1.3]]) }),
    p99('D', { log: true, paper: stated('D alone', '6.4', [[X, 1.4]]) }),
    toAlone(median('D', { log: true }), aloneInCluster, [
      ...stated('none', '6.4', [[X, 71.4]]),
      ...stated('justitia', '6.4: 71.4 / 26.5', [[X, 71.4 / 26.5]]),
    ]),
    toAlone(p99('D', { log: true }), aloneInCluster, [
      ...stated('none', '6.4', [[X, 79.8]]),
      ...stated('justitia', '6.4: 79.8 / 12.7', [[X, 79.8 / 12.7]]),
    ]),
    {
      title: 'Bandwidth of all bandwidth applications',
      unit: 'Gbps',
      measure: ({ apps }) =>
        apps.some(({ kind }) => kind === 'B')
          ? apps.reduce((sum, { kind, throughputGbps }) => sum + (kind === 'B' ? throughputGbps : 0), 0)
          : Number.NaN,
    },
  ],
};

const SENDERS = 32;

const D = `D:size=16,think=1us,host=${SENDERS},to=${SENDERS + 1}`;

const incast = (apps: readonly string[]) =>
  onInfiniBand(apps, {
    hosts: SENDERS + 2,
    set: { linkGbps: 10, congestionControl: 'dcqcn' },
    duration: '200ms',
    warmup: '150ms',
  });

const figure24: Figure<string> = {
  number: '24',
  title: 'Incast of 32 senders with bandwidth applications and one with a latency application',
  source: 'Justitia 6.5, fig. 24: under Justitia, the tail is better and the total bandwidth still high',
  note: "ConnectX-3 at 10 Gbps with DCQCN, one switch. D waits in the switch's queue, which perf on the senders cannot see; Justitia's receivers tell the senders.",
  x: { title: '', values: ['33 senders'] },
  mix: () => incast([`B:size=1MB,count=${SENDERS},host=0-${SENDERS - 1},to=${SENDERS + 1}`, D]),
  series: { 'D alone': () => incast([D]) },
  panels: [
    average('D', { log: true }),
    p99('D', { log: true }),
    bandwidth('B', { title: 'Bandwidth of all B' }),
  ],
};

const PAIR = ['B:size=1MB,count=8,host=0,to=2', 'D:size=16,think=1us,host=0,to=2'];

const BACKGROUND = 'B:name=others,size=1MB,host=1,to=3';

const racks = (apps: readonly string[]) =>
  onInfiniBand(apps, {
    hosts: 4,
    topology: 'dumbbell',
    set: { linkGbps: 10, congestionControl: 'dcqcn' },
    duration: '100ms',
    warmup: '50ms',
  });

const figure25b: Figure<string> = {
  number: '25b',
  title:
    '8 bandwidth applications and a latency application between two hosts, on a congested link between racks',
  source: 'Justitia 6.6, fig. 25(b): latency is lower than with congestion control alone',
  note: 'In the paper, 24 more pairs of hosts congest uplinks of 160 Gbps. Here, one other pair congests a trunk of 10 Gbps, also under the policy, except where a series names one pair. Under perf, the eight applications get less of the trunk than bare, and the other pair gets more; D has a better tail and a worse median.',
  x: { title: '', values: ['two racks'] },
  mix: () => racks([...PAIR, BACKGROUND]),
  series: {
    'D alone': () => racks(PAIR.slice(1)),
    'justitia on one pair': () => ({ policy: 'justitia', onHosts: ['@1=none', '@3=none'] }),
  },
  panels: [median('D', { log: true }), p99('D', { log: true }), bandwidth('B'), bandwidth('others')],
};

export const FIGURES: readonly Figure[] = [
  figure17a,
  figure17b,
  figure18,
  figure19,
  figure20,
  figure21,
  figure22,
  figure23,
  figure24,
  figure25b,
];
