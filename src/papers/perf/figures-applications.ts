/** PeRF's figures of other devices and of applications (5.2.5, 5.3). */

import { gbps } from '../../mix/metrics.ts';
import type { Figure } from '../engine/figure.ts';
import { mix } from '../engine/mix.ts';
import { average, bandwidth, latencies, p99, rate } from '../engine/panels.ts';
import { JUSTITIA } from './justitia.ts';

// The devices of PeRF, fig. 15.
const DEVICES = { 'ConnectX-5, 40 Gbps': 'cx5-40g', 'ConnectX-6, 100 Gbps': 'cx6-100g' } as const;
type Device = keyof typeof DEVICES;
const DEVICE = { title: '', values: Object.keys(DEVICES) as Device[] };

const figure15a: Figure<Device> = {
  number: '15a',
  title: 'Other devices: B_App and D_App',
  source: 'PeRF 5.2.5, fig. 15(a): the average latency of D_App falls by up to 80 %',
  note: "The model's only ConnectX-6 stands in for ConnectX-6 over InfiniBand. In the model, perf lowers the latency of D by 43 % (ConnectX-5) and 63 % (ConnectX-6).",
  x: DEVICE,
  mix: (x) => mix(DEVICES[x], ['B:size=1MiB', 'D:size=16,think=1us'], { duration: '20ms', warmup: '2ms' }),
  panels: [...latencies<Device>('D'), bandwidth('B')],
};

const figure15b: Figure<Device> = {
  number: '15b',
  title: 'Other devices: B_App and M_App',
  source: 'PeRF 5.2.5, fig. 15(b): M_App gets up to 5 times its bare rate',
  note: "The model's only ConnectX-6 stands in for ConnectX-6 over InfiniBand. In the model, perf raises the rate of M 7 times (ConnectX-5) and 4 times (ConnectX-6).",
  x: DEVICE,
  mix: (x) => mix(DEVICES[x], ['B:size=1MiB', 'M:size=16'], { duration: '20ms', warmup: '2ms' }),
  panels: [rate('M'), bandwidth('B')],
};

const figure15c: Figure<Device> = {
  number: '15c',
  title: 'Other devices: B_App_single alongside B_App_multi with five queue pairs',
  source: 'PeRF 5.2.5, fig. 15(c) and (d): equal shares under PeRF',
  note: "The model's only ConnectX-6 stands in for ConnectX-6 over InfiniBand.",
  also: ['15d'],
  x: DEVICE,
  mix: (x) =>
    mix(DEVICES[x], ['B:name=single,size=1MiB', 'B:name=multi,size=1MiB,qps=5'], {
      duration: '20ms',
      warmup: '2ms',
    }),
  panels: [
    bandwidth('single', { title: 'Bandwidth of B_App_single' }),
    bandwidth('multi', { title: 'Bandwidth of B_App_multi' }),
  ],
};

const APPS = [
  'B:name=crail,size=1MiB',
  'M:name=herd,size=32-64,batch=8,depth=32,op=send',
  'D:name=rping,size=256,op=send,think=5us',
];

const figure16a: Figure<string> = {
  number: '16a',
  title: 'File transfers like those of Crail, a key-value store like HERD, and rping',
  source:
    'PeRF 5.3, fig. 16(a): Crail gets 55 % more than under Justitia, and rping waits less than 1 us longer',
  note: 'Stand-ins with the same message sizes, not the programs themselves. rping waits 0.7 us longer under perf and 3 us longer under perf:paper.',
  x: { title: '', values: ['all three'] },
  mix: () => mix('cx6-100g', APPS, { duration: '20ms', warmup: '2ms' }),
  series: {
    'rping alone': () => ({ apps: APPS.slice(2) }),
    ...JUSTITIA,
  },
  panels: [
    bandwidth('crail', { title: 'Bandwidth of Crail' }),
    rate('herd', { title: 'Message rate of HERD' }),
    average('rping'),
    p99('rping'),
  ],
};

const WITH_BACKGROUND = [
  'B:name=crail,size=1MiB,to=1',
  'M:name=herd,size=32-64,batch=8,depth=32,op=send,to=1',
  'D:name=rping,size=256,op=send,think=5us,to=1',
  'B:name=background,size=1MiB,qps=16,to=2',
];

const figure16b: Figure<string> = {
  number: '16b',
  title: 'The same three applications, and 16 queue pairs with 1 MB messages to another node',
  source: 'PeRF 5.3, fig. 16(b); PeRF_S has a 0_WAIT_UNIT of 900',
  note: 'Stand-ins with the same message sizes, not the programs themselves.',
  x: { title: '', values: ['all four'] },
  mix: () => mix('cx6-100g', WITH_BACKGROUND, { hosts: 3, duration: '20ms', warmup: '2ms' }),
  series: {
    'perf:paper, 0_WAIT_UNIT 900': () => ({ policy: 'perf:paper,zeroWaitUnitBytes=900' }),
    ...JUSTITIA,
  },
  panels: [
    {
      title: 'Bandwidth of Crail and the background',
      unit: 'Gbps',
      measure: (run) => gbps(run, 'crail') + gbps(run, 'background'),
    },
    rate('herd', { title: 'Message rate of HERD' }),
    average('rping'),
    p99('rping'),
  ],
};

export const FIGURES: readonly Figure[] = [figure15a, figure15b, figure15c, figure16a, figure16b];
