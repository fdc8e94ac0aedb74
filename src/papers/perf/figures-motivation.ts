/** PeRF's figures of section 2: the problem on bare devices. */

import { avgUs, gbps, mmps, p99Us } from '../../mix/metrics.ts';
import type { Figure, Panel } from '../engine/figure.ts';
import { mix } from '../engine/mix.ts';
import { average, bandwidth, latencies, rate, stated } from '../engine/panels.ts';

// A 16 B application alongside messages of any size, with three MTUs: PeRF, fig. 1(b) and (c).
const BACKGROUND_BYTES = [64, 256, 1024, 2048, 4096, 8192, 65536, 1 << 20, 1e9];
/** Short messages are posted in batches. */
const background = (size: number) => `${size <= 65536 ? 'M' : 'B'}:name=bg,size=${size}B`;

function byBackground(part: string, foreground: string, panel: Panel<number>, note?: string) {
  return {
    title: `${panel.title} by the size of background messages`,
    source: `PeRF 2.2, fig. 1(${part})`,
    note,
    x: { title: 'background messages', values: BACKGROUND_BYTES, log: true, bytes: true },
    mix: (size: number) => mix('cx6-100g', [foreground, background(size)]),
    policies: [],
    series: Object.fromEntries(
      [1024, 2048, 4096].map((mtuBytes) => [`MTU ${mtuBytes}`, () => ({ set: { mtuBytes } })]),
    ),
    panels: [panel],
  } satisfies Omit<Figure<number>, 'number'>;
}

const SIZES = ['none', '1 KiB', '2 KiB', '4 KiB'] as const;

const FIVE = 'M:name=small,size=64,count=5';

const sixth = (size: string) => `M:name=large,size=${size.replace(' ', '')}`;

const figure1a: Figure<(typeof SIZES)[number]> = {
  number: '1a',
  title: 'Five applications with small messages and a sixth with larger messages',
  source: 'PeRF 2.2, fig. 1(a)',
  note: 'About the small messages, the paper only says "below 1 KB".',
  x: { title: 'messages of the sixth', values: SIZES },
  mix: (size) => mix('cx6-100g', size === 'none' ? [FIVE] : [FIVE, sixth(size)]),
  policies: ['none'],
  panels: [
    { title: 'Message rate of each of the five', unit: 'Mmps', measure: (run) => mmps(run, 'small') / 5 },
    rate('large', { title: 'Message rate of the sixth' }),
  ],
};

const figure1b: Figure<number> = {
  number: '1b',
  ...byBackground('b', 'M:name=fg,size=16', rate('fg', { title: 'Message rate of a 16 B application' })),
};

const figure1c: Figure<number> = {
  number: '1c',
  ...byBackground(
    'c',
    'D:name=fg,size=16,think=1us',
    average('fg', { title: 'Average latency of a 16 B application' }),
    'In the model, a small message waits for the egress FIFO, which is full from 1 KiB on and equally long with every MTU.',
  ),
};

const OPERATIONS = ['WRITE', 'SEND', 'READ'] as const;

const op = (operation: string) => `op=${operation.toLowerCase()}`;

const figure2a: Figure<(typeof OPERATIONS)[number]> = {
  number: '2a',
  title: 'M_App alongside B_App',
  source: 'PeRF 2.3.1, fig. 2(a): B_App keeps 94.77 to 96.89 Gbps with all operations',
  x: { title: '', values: OPERATIONS },
  mix: (x) => mix('cx6-100g', [`B:size=1MiB,${op(x)}`, `M:size=16,${op(x)}`]),
  series: { 'M alone': (x) => ({ apps: [`M:size=16,${op(x)}`] }) },
  panels: [
    rate('M'),
    bandwidth('B', {
      paper: stated('none', '2.3.1', [
        ['WRITE', [94.77, 96.89]],
        ['SEND', [94.77, 96.89]],
        ['READ', [94.77, 96.89]],
      ]),
    }),
  ],
};

const APPS = { 'D alone': ['D:size=16,think=1us'], 'D beside B': ['B:size=1MiB', 'D:size=16,think=1us'] };

const figure2b: Figure<keyof typeof APPS> = {
  number: '2b',
  title: 'D_App alongside B_App',
  source: 'PeRF 2.3.1, fig. 2(b)',
  x: { title: '', values: ['D alone', 'D beside B'] },
  mix: (x) => mix('cx6-100g', APPS[x]),
  panels: [
    { title: 'Average latency of D', unit: 'us', measure: (run) => avgUs(run, 'D') },
    { title: '99th-percentile latency of D', unit: 'us', measure: (run) => p99Us(run, 'D') },
    {
      title: 'Bandwidth of B',
      unit: 'Gbps',
      measure: (run, x) => (x === 'D alone' ? Number.NaN : gbps(run, 'B')),
      paper: [{ series: 'none', x: 'D beside B', value: 97.94, from: '2.3.1' }],
    },
  ],
};

const figure3a: Figure<number> = {
  number: '3a',
  title: 'B_App_single alongside B_App_multi',
  source: 'PeRF 2.3.2, fig. 3(a)',
  x: { title: 'queue pairs of B_App_multi', values: [1, 2, 4, 8, 16], log: true },
  mix: (qps) => mix('cx6-100g', ['B:name=single,size=1MiB', `B:name=multi,size=1MiB,qps=${qps}`]),
  panels: [
    { title: 'Bandwidth of B_App_single', unit: 'Gbps', measure: (run) => gbps(run, 'single') },
    { title: 'Bandwidth of B_App_multi', unit: 'Gbps', measure: (run) => gbps(run, 'multi') },
  ],
};

const QPS = [1, 2, 4, 6, 8, 9, 12, 16];

const figure3b: Figure<number> = {
  number: '3b',
  title: 'M_App_single alongside M_App_multi',
  source: 'PeRF 2.3.2, fig. 3(b), and 5.2.3, fig. 10(a): M_App_single gets up to 35 % more under PeRF',
  note: 'In the paper, 9 queue pairs reach 105 Mmps; here these are 8 of M_App_multi and one of M_App_single.',
  x: { title: 'queue pairs of M_App_multi', values: QPS },
  mix: (qps) => mix('cx6-100g', ['M:name=single,size=16', `M:name=multi,size=16,qps=${qps}`]),
  panels: [
    rate('single', { title: 'Message rate of M_App_single' }),
    rate('multi', { title: 'Message rate of M_App_multi' }),
    {
      title: 'Message rate of both',
      unit: 'Mmps',
      measure: (run) => mmps(run, 'single') + mmps(run, 'multi'),
      paper: stated('none', '2.3.2', [[8, 105]]),
    },
  ],
};

const figure3c: Figure<number> = {
  number: '3c',
  title: 'D_App alongside M_App_multi',
  source:
    'PeRF 2.3.2, fig. 3(c), and 5.2.3, fig. 10(b): PeRF lowers p99 latency by up to 22 %, average latency by 5 %',
  x: { title: 'queue pairs of M_App_multi', values: [1, 2, 4, 6, 8, 9, 12, 16] },
  mix: (qps) => mix('cx6-100g', ['D:size=16,think=1us', `M:name=multi,size=16,qps=${qps}`]),
  panels: [...latencies<number>('D'), rate('multi', { title: 'Message rate of M_App_multi' })],
};

export const FIGURES: readonly Figure[] = [
  figure1a,
  figure1b,
  figure1c,
  figure2a,
  figure2b,
  figure3a,
  figure3b,
  figure3c,
];
