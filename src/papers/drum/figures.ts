/** DRUM's figures. */

import { gbps, mmps } from '../../mix/metrics.ts';
import type { Mix, MixChange } from '../../mix/mixture.ts';
import type { Figure } from '../engine/figure.ts';
import { type MixOptions, mix } from '../engine/mix.ts';
import { average, bandwidth, p99, rate, stated } from '../engine/panels.ts';

// The device of DRUM's testbed, and the loads that share it.
const onTestbed = (apps: readonly string[], more: MixOptions = {}): Mix =>
  mix('cx5-40g', apps, { duration: '10ms', ...more });
/** With a cache of 20 queue-pair contexts, the size beyond which the rate falls in DRUM, section II-D. */
const cached = (apps: readonly string[], more: MixOptions = {}): Mix =>
  onTestbed(apps, { set: { qpcEntries: 20 }, ...more });

/** Batches of requests on one or several queue pairs. */
const batches = (size: string, batch: number, qps = 1) =>
  `M:name=bg,size=${size},batch=${batch},depth=${batch},qps=${qps}`;
/** One message at a time. */
const foreground = (size: string) => `D:name=fg,size=${size},think=1us`;
/** The assumed background traffic of other connections: batches. */
const others = (connections: number) => batches('1KB', 20, connections - 1);

const figure2a: Figure<number> = {
  number: '2a',
  title: '1 KB messages alongside batches of requests',
  source: 'DRUM II-A, fig. 2(a)',
  note: 'The paper gives 80th percentiles; the text has 78 instead of 74.3. It does not describe the background traffic: here, 1 KB messages on one queue pair, which gets one turn however long its queue is, so the model shows only a small part of the effect.',
  x: { title: 'requests per batch', values: [20, 40, 60, 80, 100] },
  mix: (batch) => onTestbed([foreground('1KB'), batches('1KB', batch)]),
  panels: [
    average('fg', {
      paper: stated('none', 'II-A, 80th percentile', [
        [20, 19.8],
        [100, 74.3],
      ]),
    }),
    p99('fg'),
  ],
};

const app = (batch: number, pause: number) => `M:size=1KB,batch=${batch},depth=${batch},think=${pause}us`;

const series = (batch: number) => (perUs: number) => ({ apps: [app(batch, 1 / perUs)] });

const figure2b: Figure<number> = {
  number: '2b',
  title: 'An application that posts a batch after each polled completion, by how often it polls',
  source: 'DRUM II-C, fig. 2(b): throughput grows with the polling rate',
  note: 'Each poll ends a pause of the same mean length.',
  x: { title: 'polls per microsecond', values: [0.05, 0.1, 0.2, 0.5, 1], log: true },
  mix: (perUs) => onTestbed([app(1, 1 / perUs)], { duration: '20ms' }),
  policies: [],
  series: { 'batches of 1': series(1), 'batches of 5': series(5), 'batches of 10': series(10) },
  panels: [rate('M')],
};

const rc = (qps: number, transport = 'rc') => `M:size=16,transport=${transport},qps=${qps}`;

/** Datagrams do not require one queue pair per connection: 9 queue pairs reach the full message rate. */
const ud = (connections: number) => `M:size=16,op=send,transport=ud,qps=${Math.min(9, connections)}`;

const figure2c: Figure<number> = {
  number: '2c',
  title: 'Message rate by the number of connections',
  source: 'DRUM II-D, fig. 2(c): RC and UC fall beyond 20 connections, UD does not',
  note: 'The cache is set to 20 contexts, because the paper reports the drop there; other sources report hundreds.',
  x: { title: 'connections', values: [4, 8, 16, 20, 24, 32, 64] },
  mix: (connections) => cached([rc(connections)], { duration: '5ms' }),
  policies: [],
  series: {
    RC: () => ({}),
    UC: (connections) => ({ apps: [rc(connections, 'uc')] }),
    UD: (connections) => ({ apps: [ud(connections)] }),
  },
  panels: [rate('M', { title: 'Total message rate' })],
};

const BATCHES = [20, 40, 60, 80, 100];

const figure8: Figure<number> = {
  number: '8',
  title: '32 B messages alongside batches of requests',
  source: 'DRUM V, test case 1, fig. 8: the 80th percentile stays within 20 us under DRUM',
  note: 'The paper plots distributions. It does not describe the background traffic: here, 1 KB messages on one queue pair, which gets one turn however long its queue is. On the bare device, latencies also stay within 20 us.',
  x: { title: 'requests per batch', values: BATCHES },
  mix: (batch) => onTestbed([foreground('32'), batches('1KB', batch)]),
  panels: [
    average('fg', {
      paper: stated(
        'drum',
        'V-B, 80th percentile',
        BATCHES.map((batch) => [batch, [0, 20]]),
      ),
    }),
    p99('fg'),
  ],
};

const figure9: Figure<number> = {
  number: '9',
  title: 'Time for 1 GB in messages of 1 MB, alongside batches of requests of 1 KB to 10 MB',
  source: 'DRUM V, test case 2, fig. 9: under DRUM, it does not depend on the background',
  note: 'Computed from the bandwidth of the transfer; the paper plots distributions over 1,000 transfers. In the model, the bare device does not depend on the background either, because the background is one queue pair, which gets one turn.',
  x: { title: 'requests per batch', values: [20, 40, 60, 80, 100] },
  mix: (batch) =>
    onTestbed(['B:name=fg,size=1MB,depth=1', `B:name=bg,size=1KB-10MB,batch=${batch},depth=${batch}`], {
      duration: '40ms',
    }),
  panels: [{ title: 'Time for 1 GB', unit: 's', measure: (run) => 8.589934592 / gbps(run, 'fg') }],
};

/** Connections share queue pairs, five each, whichever application they belong to. */
const SHARE = 'share:connectionsPerQp=5';
const shares =
  (foreground: string) =>
  (connections: number): MixChange => ({
    policy: SHARE,
    apps: [`${foreground},tenant=all,inline=no`, `${others(connections)},tenant=all`],
  });

const figure10: Figure<number> = {
  number: '10',
  title: '32 B messages by the number of connections',
  source: 'DRUM V, test case 1, fig. 10',
  note: 'The paper gives 80th percentiles, with background traffic that it does not describe: here, batches of 20 messages of 1 KB.',
  x: { title: 'connections', values: [20, 50, 100] },
  mix: (connections) => cached([foreground('32'), others(connections)]),
  series: { SHARE: shares(foreground('32')) },
  panels: [
    average('fg', {
      paper: [
        ...stated('none', 'V-B, 80th percentile', [
          [20, 7.1],
          [50, 26.5],
          [100, 90.4],
        ]),
        ...stated('SHARE', 'V-B, 80th percentile', [[20, 7.2]]),
        ...stated('drum', 'V-B, 80th percentile', [
          [20, 8.8],
          [50, 14.5],
          [100, 24],
        ]),
      ],
    }),
    p99('fg'),
  ],
};

const MESSAGES = 2 ** 20 / 32;

const figure11: Figure<number> = {
  number: '11',
  title: 'Time for 1 MB in messages of 32 B, by the number of connections',
  source: 'DRUM V, test case 2, fig. 11',
  note: 'Computed from the message rate. The paper gives 80th percentiles; at 100 connections, DRUM is 3.75 times as fast as RAW and 1.4 times as fast as SHARE. Here, a message takes as long as in fig. 10 and messages do not overlap, so the time is three times that of the paper, which has 1.6 us per message.',
  x: { title: 'connections', values: [20, 50, 100] },
  mix: (connections) => cached(['D:name=fg,size=32', others(connections)]),
  series: { SHARE: shares('D:name=fg,size=32') },
  panels: [
    {
      title: 'Time for 1 MB',
      unit: 'ms',
      measure: (run) => MESSAGES / mmps(run, 'fg') / 1e3,
      paper: [
        ...stated('none', 'V-B, 80th percentile', [[20, 53.1]]),
        ...stated('SHARE', 'V-B, 80th percentile', [[20, 82.8]]),
        ...stated('drum', 'V-B, 80th percentile', [[20, 62.9]]),
      ],
    },
  ],
};

const figure12: Figure<number> = {
  number: '12',
  title: '20 connections with one message at a time, by message size',
  source: 'DRUM V, test case 2, fig. 12: above 500 KB, RAW has 10.3 to 15.6 Kops and DRUM 14 to 25.6',
  note: 'More than 10 Kops of 500 KB do not fit into 40 Gbps, so the model cannot show those values.',
  x: { title: 'message size', values: [100, 1000, 5000, 50e3, 500e3, 1e6], log: true, bytes: true },
  mix: (bytes) => cached([`B:size=${bytes},depth=1,qps=20`]),
  series: { SHARE: () => ({ policy: SHARE }) },
  panels: [
    average('B', { log: true }),
    {
      title: 'Total operation rate',
      unit: 'Kops',
      log: true,
      measure: (run) => mmps(run, 'B') * 1e3,
      paper: [
        ...stated('none', 'V-B', [
          [500e3, [10.3, 15.6]],
          [1e6, [10.3, 15.6]],
        ]),
        ...stated('drum', 'V-B', [
          [500e3, [14, 25.6]],
          [1e6, [14, 25.6]],
        ]),
      ],
    },
  ],
};

const HOSTS = 6;

const figure13: Figure<number> = {
  number: '13',
  title: 'Clients of a key-value store on six hosts',
  source:
    'DRUM V, test case 3, figs. 13 and 14: beyond 300 clients, DRUM has 1.8 times the throughput of SHARE',
  note: 'GETs are READs of 32 B to 1 MB. In the paper, most requests take less than 18 us, a sixth of the time that a message of mean size takes at 40 Gbps, so its latencies cannot belong to this load. With 300 clients, requests of half a megabyte keep the link of the server busy under any policy, so that none can have 1.8 times the throughput of another.',
  also: ['14'],
  x: { title: 'clients', values: [24, 96, 198, 300] },
  mix: (clients) =>
    cached([`B:name=kv,op=read,size=32-1MiB,depth=1,qps=${clients / HOSTS},count=${HOSTS},host=1-6,to=0`], {
      hosts: HOSTS + 1,
      ...(clients < 100 ? { duration: '20ms', warmup: '4ms' } : { duration: '100ms', warmup: '10ms' }),
    }),
  series: { SHARE: () => ({ policy: SHARE }) },
  panels: [bandwidth('kv', { title: 'Total bandwidth' }), average('kv'), p99('kv')],
};

/** Figures of runs. */
export const FIGURES: readonly Figure[] = [
  figure2a,
  figure2b,
  figure2c,
  figure8,
  figure9,
  figure10,
  figure11,
  figure12,
  figure13,
];
