/** PeRF's figures of sections 5.2.4 and 5.2.5: two racks, other operations, many tenants. */

import { fairness, mmps } from '../../mix/metrics.ts';
import type { Figure } from '../engine/figure.ts';
import { mix } from '../engine/mix.ts';
import { average, bandwidth, latencies, rate, stated } from '../engine/panels.ts';

const OPERATIONS = ['SEND', 'READ'] as const;

/** Three hosts in each rack. Each B_App sends to its counterpart over the single trunk. */
const apps = (count: number) => [
  `B:size=1MiB,count=${count},host=${count === 1 ? 0 : `0-${count - 1}`},to=${count === 1 ? 3 : `3-${count + 2}`}`,
  'D:size=16,think=5us,host=0,to=3',
];

const figure11: Figure<number> = {
  number: '11',
  title: 'One to three B_Apps and D_App between two racks, with DCQCN',
  source: 'PeRF 5.2.4, fig. 11: on the bare device, D_App waits about 10 us longer',
  note: "The paper starts the B_Apps 20 s apart and plots time. Here each number of B_Apps is a separate run, and DCQCN has 50 ms to settle. Alongside two B_Apps, D waits longer under perf than bare, in the switch's queue. The paper also reports an increase.",
  x: { title: 'B_Apps', values: [1, 2, 3] },
  mix: (count) =>
    mix('cx6-100g', apps(count), {
      hosts: 6,
      topology: 'dumbbell',
      set: { congestionControl: 'dcqcn' },
      duration: '100ms',
      warmup: '50ms',
    }),
  panels: [
    average('D'),
    bandwidth('B', { title: 'Bandwidth of all B_Apps' }),
    { title: 'Fairness of the B_Apps (Jain)', unit: '', measure: (run) => fairness(run, 'B') },
  ],
};

const op = (operation: string) => `op=${operation.toLowerCase()}`;

const figure12a: Figure<(typeof OPERATIONS)[number]> = {
  number: '12a',
  title: 'Other operations: B_App and D_App',
  source:
    'PeRF 5.2.5, fig. 12(a): the average latency of D_App falls by 75 % (SEND) and 67 % (READ), B_App loses 5 %; bandwidth as in fig. 2(b)',
  note: 'In the model, perf lowers the latency of D by 63 % (SEND) and 65 % (READ).',
  x: { title: '', values: OPERATIONS },
  mix: (x) =>
    mix('cx6-100g', [`B:size=1MiB,${op(x)}`, `D:size=16,${op(x)},think=5us`], {
      duration: '20ms',
      warmup: '2ms',
    }),
  panels: [...latencies<(typeof OPERATIONS)[number]>('D'), bandwidth('B')],
};

const appsOfM = (operation: string) => {
  const op = `op=${operation.toLowerCase()}`;
  return [`B:size=1MiB,${op}`, `M:size=16,${op}`];
};

const figure12b: Figure<(typeof OPERATIONS)[number]> = {
  number: '12b',
  title: 'Other operations: B_App and M_App',
  source: 'PeRF 5.2.5, fig. 12(b): M_App gets 2.7 times its bare rate with SEND, 3 times with READ',
  note: 'The paper controls READs at the remote side. perf:paper does not: its fixed waits pace the requests, not the responses.',
  x: { title: '', values: OPERATIONS },
  mix: (x) => mix('cx6-100g', appsOfM(x)),
  panels: [
    rate('M'),
    {
      title: 'Message rate of M, relative to bare',
      unit: 'x',
      base: (x) => mix('cx6-100g', appsOfM(x)),
      measure: (run, _x, bare) => mmps(run, 'M') / mmps(bare, 'M'),
      paper: stated('perf:paper', '5.2.5', [
        ['SEND', 2.7],
        ['READ', 3],
      ]),
    },
    bandwidth('B'),
  ],
};

/** The more B_Apps, the longer until all of them have started. */
const TIMES = {
  some: { duration: '18ms', warmup: '2ms' },
  many: { duration: '12ms', warmup: '4ms' },
};

const figure13a: Figure<number> = {
  number: '13a',
  title: 'Many B_Apps with 8 queue pairs each alongside M_App',
  source: 'PeRF 5.2.5, fig. 13(a): 9.7 Mmps and 87 Gbps with up to 1,000',
  note: 'With its fixed waits, perf:paper fills the FIFO from two B_Apps on, and M collapses. The paper does not say how it avoids that.',
  x: { title: 'B_Apps', values: [2, 8, 16, 1000], log: true },
  mix: (count) =>
    mix('cx6-100g', [`B:size=1MiB,count=${count},qps=8`, 'M:size=16'], count > 16 ? TIMES.many : TIMES.some),
  panels: [
    rate('M', { paper: stated('perf:paper', '5.2.5', [[1000, 9.7]]) }),
    bandwidth('B', { title: 'Bandwidth of all B_Apps', paper: stated('perf:paper', '5.2.5', [[1000, 87]]) }),
  ],
};

const figure13b: Figure<number> = {
  number: '13b',
  title: 'How evenly many B_Apps with 8 queue pairs each share',
  source: 'PeRF 5.2.5, fig. 13(b): a very low standard deviation',
  note: '1,000 B_Apps are left out, because one rotation of them takes longer than the run.',
  x: { title: 'B_Apps', values: [2, 8, 16], log: true },
  mix: (count) =>
    mix('cx6-100g', [`B:size=1MiB,count=${count},qps=8`, 'M:size=16'], { duration: '18ms', warmup: '2ms' }),
  panels: [
    {
      title: 'Standard deviation of their bandwidth, relative to the mean',
      unit: '%',
      measure: ({ apps }) => {
        const rates = apps.filter(({ kind }) => kind === 'B').map((app) => app.throughputGbps);
        const mean = rates.reduce((sum, one) => sum + one, 0) / rates.length;
        const squares = rates.reduce((sum, one) => sum + (one - mean) ** 2, 0);
        return (100 * Math.sqrt(squares / rates.length)) / mean;
      },
    },
  ],
};

/** Rates of the first and of the second B_App in Gbit/s. */
const rates = (policy: string) => (first: number) => ({
  policy: `${policy}ratesGbps=one:${first}/two:${100 - first}`,
});

const figure14: Figure<number> = {
  number: '14',
  title: 'Two B_Apps with rate limits, and D_App',
  source:
    'PeRF 5.2.5, fig. 14: D_App waits up to 70 % less under PeRF; (a) is RDMA with token buckets, (b) PeRF',
  note: 'In the model, D waits at most 18 % less: the two rates together fill the link, and therefore the FIFO.',
  x: { title: 'Gbit/s of the first B_App; the second gets the rest of 100', values: [10, 20, 30, 40, 50] },
  mix: () => mix('cx6-100g', ['B:name=one,size=1MiB', 'B:name=two,size=1MiB', 'D:size=16,think=1us']),
  policies: [],
  series: {
    'token-bucket': rates('token-bucket:'),
    perf: rates('perf:'),
    'perf:paper': rates('perf:paper,'),
  },
  panels: [bandwidth('one'), bandwidth('two'), ...latencies<number>('D')],
};

export const FIGURES: readonly Figure[] = [figure11, figure12a, figure12b, figure13a, figure13b, figure14];
