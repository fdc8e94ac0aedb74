/** PeRF's figures of sections 5.2.1 to 5.2.3: isolation of messages and of queue pairs. */

import { mmps } from '../../mix/metrics.ts';
import type { Figure } from '../engine/figure.ts';
import { mix } from '../engine/mix.ts';
import { average, bandwidth, latencies, p99, rate, stated } from '../engine/panels.ts';
import { JUSTITIA, JUSTITIA_2US, RELAXED } from './justitia.ts';

// Applications with one queue pair alongside an application with several: PeRF, figs. 9 and 10.
const QPS = [2, 4, 8, 16];
const LONG = { duration: '10ms', warmup: '2ms' };

/** `single` alongside B_App_multi, which has the name multi. */
const besideMultiB = (single: string) => (qps: number) =>
  mix('cx6-100g', [single, `B:name=multi,size=1MiB,qps=${qps}`], LONG);
const QPS_OF_B = { title: 'queue pairs of B_App_multi', values: QPS };

const APPS = ['B:size=1MiB', 'D:size=16,think=1us'];

const figure7a: Figure<string> = {
  number: '7a',
  title: 'B_App and D_App under strict priority in hardware and under policies',
  source: 'PeRF 5.2.1, fig. 7(a): PeRF is comparable with strict priority',
  x: { title: '', values: ['B and D'] },
  mix: () => mix('cx6-100g', APPS, { duration: '10ms', warmup: '2ms' }),
  series: {
    'strict priority': () => ({
      set: { scheduler: 'sp' },
      apps: ['B:size=1MiB,class=1', 'D:size=16,think=1us,class=0'],
    }),
  },
  panels: [bandwidth('B'), ...latencies<string>('D')],
};

const figure7b: Figure<string> = {
  number: '7b',
  title: 'B_App and M_App under strict priority and ETS in hardware and under policies',
  source: 'PeRF 5.2.1, fig. 7(b): strict priority starves B_App; PeRF is similar to ETS 16:1',
  note: 'In the model, M gets more under PeRF than with ETS 16:1, and B less.',
  x: { title: '', values: ['B and M'] },
  mix: () => mix('cx6-100g', ['B:size=1MiB', 'M:size=16']),
  series: {
    'strict priority': () => ({
      set: { scheduler: 'sp' },
      apps: ['B:size=1MiB,class=1', 'M:size=16,class=0'],
    }),
    'ETS 16:1': () => ({
      set: { scheduler: 'ets', etsWeights: '16,1' },
      apps: ['B:size=1MiB,class=0', 'M:size=16,class=1'],
    }),
  },
  panels: [bandwidth('B'), rate('M')],
};

const figure8a: Figure<string> = {
  number: '8a',
  title: 'Message-level isolation: B_App and D_App',
  source:
    'PeRF 5.2.2, fig. 8(a): Justitia halves B_App; relaxed to 15 us, it gives B_App about 86 Gbps and D_App 1.5 us (5.1)',
  x: { title: '', values: ['B and D'] },
  mix: () => mix('cx6-100g', ['B:size=1MiB', 'D:size=16,think=1us']),
  series: JUSTITIA,
  panels: [
    bandwidth('B', {
      paper: [...stated('none', '2.3.1', [['B and D', 97.94]]), ...stated(RELAXED, '5.1', [['B and D', 86]])],
    }),
    average('D', { paper: stated(RELAXED, '5.1', [['B and D', 1.5]]) }),
    p99('D'),
  ],
};

const figure8b: Figure<string> = {
  number: '8b',
  title: 'Message-level isolation: B_App and M_App',
  source: 'PeRF 5.2.2, fig. 8(b): Justitia halves both; PeRF keeps both high',
  x: { title: '', values: ['B and M'] },
  mix: () => mix('cx6-100g', ['B:size=1MiB', 'M:size=16']),
  series: { 'Justitia, 2 us': () => ({ policy: JUSTITIA_2US }) },
  panels: [bandwidth('B'), rate('M')],
};

const figure9a: Figure<number> = {
  number: '9a',
  title: 'QP-level isolation: B_App_single alongside B_App_multi',
  source: 'PeRF 5.2.3, fig. 9(a): PeRF keeps the shares whatever the number of queue pairs',
  x: QPS_OF_B,
  mix: besideMultiB('B:name=single,size=1MiB'),
  panels: [
    bandwidth('single', { title: 'Bandwidth of B_App_single' }),
    bandwidth('multi', { title: 'Bandwidth of B_App_multi' }),
  ],
};

const figure9b: Figure<number> = {
  number: '9b',
  title: 'QP-level isolation: M_App_single alongside B_App_multi',
  source: 'PeRF 5.2.3, fig. 9(b), and (d) for Justitia, which halves both',
  also: ['9d'],
  x: QPS_OF_B,
  mix: besideMultiB('M:size=16'),
  panels: [rate('M'), bandwidth('multi', { title: 'Bandwidth of B_App_multi' })],
};

const figure9c: Figure<number> = {
  number: '9c',
  title: 'QP-level isolation: D_App_single alongside B_App_multi',
  source: 'PeRF 5.2.3, fig. 9(c), and (e), (f) for Justitia, where D waits marginally less',
  also: ['9e', '9f'],
  x: QPS_OF_B,
  mix: besideMultiB('D:size=16,think=1us'),
  panels: [...latencies<number>('D'), bandwidth('multi', { title: 'Bandwidth of B_App_multi' })],
};

const SINGLE = 'M:name=single,size=16';

const figure10a: Figure<number> = {
  number: '10a',
  title: 'QP-level isolation: M_App_single alongside M_App_multi',
  source: 'PeRF 5.2.3, fig. 10(a): M_App_single gets up to 35 % more than bare',
  note: 'In the model, M_App_single loses half its rate bare and gets 90 % more under perf.',
  x: { title: 'queue pairs of M_App_multi', values: QPS },
  mix: (qps) => mix('cx6-100g', [`M:name=multi,size=16,qps=${qps}`, SINGLE], LONG),
  panels: [
    rate('single', { title: 'Message rate of M_App_single' }),
    {
      title: 'Message rate of M_App_single, relative to alone on the bare device',
      unit: 'x',
      base: () => mix('cx6-100g', SINGLE),
      measure: (run, _x, base) => mmps(run, 'single') / mmps(base, 'single'),
    },
    rate('multi', { title: 'Message rate of M_App_multi' }),
  ],
};

const figure10b: Figure<number> = {
  number: '10b',
  title: 'QP-level isolation: D_App_single alongside M_App_multi',
  source: 'PeRF 5.2.3, fig. 10(b): p99 latency falls by up to 22 %, average latency by 5 %, relative to bare',
  note: 'In the model, D waits four times as long on the bare device from 9 queue pairs on, and no longer than alone under perf.',
  x: { title: 'queue pairs of M_App_multi', values: QPS },
  mix: (qps) => mix('cx6-100g', [`M:name=multi,size=16,qps=${qps}`, 'D:size=16,think=1us'], LONG),
  panels: [...latencies<number>('D'), rate('multi', { title: 'Message rate of M_App_multi' })],
};

const everywhere = (value: number) =>
  stated(
    'perf:paper',
    '5.2.3',
    QPS.map((qps) => [qps, value]),
  );

const figure10c: Figure<number> = {
  number: '10c',
  title: 'QP-level isolation: B_App_single alongside M_App_multi',
  source: 'PeRF 5.2.3, fig. 10(c): 88 Gbps and 9 Mmps whatever the number of queue pairs',
  x: { title: 'queue pairs of M_App_multi', values: QPS },
  mix: (qps) => mix('cx6-100g', ['B:size=1MiB', `M:size=16,qps=${qps}`], { duration: '10ms', warmup: '2ms' }),
  panels: [
    bandwidth('B', { title: 'Bandwidth of B_App_single', paper: everywhere(88) }),
    rate('M', { title: 'Message rate of M_App_multi', paper: everywhere(9) }),
  ],
};

const figure10d: Figure<number> = {
  number: '10d',
  title: 'B_App_single alongside M_App_multi with a larger QNum_allow',
  source: 'PeRF 5.2.3, fig. 10(d) to (f): a message rate comparable with bare',
  note: 'The paper gives its values of QNum_allow only in the figures.',
  also: ['10e', '10f'],
  x: { title: 'queue pairs of M_App_multi', values: QPS },
  mix: (qps) => mix('cx6-100g', ['B:size=1MiB', `M:size=16,qps=${qps}`], { duration: '10ms', warmup: '2ms' }),
  policies: ['none', 'perf', 'perf:qNumAllow=2', 'perf:qNumAllow=4', 'perf:qNumAllow=8'],
  panels: [
    bandwidth('B', { title: 'Bandwidth of B_App_single' }),
    rate('M', { title: 'Message rate of M_App_multi' }),
  ],
};

export const FIGURES: readonly Figure[] = [
  figure7a,
  figure7b,
  figure8a,
  figure8b,
  figure9a,
  figure9b,
  figure9c,
  figure10a,
  figure10b,
  figure10c,
  figure10d,
];
