/** Justitia's figures of sections 3 and 5: anomalies on bare devices. */
import { gbps } from '../../mix/metrics.ts';
import type { Figure } from '../engine/figure.ts';
import { mix } from '../engine/mix.ts';
import { bandwidth, median, p99, rate, stated, toAlone } from '../engine/panels.ts';
import { B, dareAndCrail, IB, L, NETWORK, type Network, on, onInfiniBand, ROCE, T } from './kinds.ts';

const alone = on(L);

const factors = (ib: number, roce: number) =>
  stated<Network>('none', '3.1.1', [
    [IB, ib],
    [ROCE, roce],
  ]);

const figure3: Figure<Network> = {
  number: '3',
  title: 'A latency application alongside a bandwidth application',
  source: 'Justitia 3.1.1, fig. 3',
  note: 'iWARP is not modelled.',
  x: NETWORK,
  mix: on(B, L),
  policies: ['none'],
  series: { alone: (x) => alone(x) },
  panels: [
    median('D', { paper: stated('alone', '6.4', [[IB, 1.3]]) }),
    p99('D', { paper: stated('alone', '6.4', [[IB, 1.4]]) }),
    toAlone(median('D'), alone, factors(1.85, 3.82)),
    toAlone(p99('D'), alone, factors(2.23, 4)),
  ],
};

const aloneT = on(T);

const figure4: Figure<Network> = {
  number: '4',
  title: 'A throughput application alongside a bandwidth application',
  source: 'Justitia 3.1.1, fig. 4: the rate falls by a factor of 2.85 or more',
  note: 'iWARP is not modelled.',
  x: NETWORK,
  mix: on(B, T),
  policies: ['none'],
  series: { alone: (x) => aloneT(x) },
  panels: [
    rate('M'),
    toAlone(
      rate('M'),
      aloneT,
      stated<Network>('none', '3.1.1', [
        [IB, [0, 1 / 2.85]],
        [ROCE, [0, 1 / 2.85]],
      ]),
    ),
  ],
};

const APPS = ['B:name=short,size=1MB,depth=1', 'B:name=long,size=1GB,depth=1'];

const figure5: Figure<Network> = {
  number: '5',
  title: 'Bandwidth applications with messages of 1 MB and of 1 GB',
  source: 'Justitia 3.1.3, fig. 5',
  note: "With one request outstanding. The paper's factors would require tens of microseconds between messages, which no published number explains, so the model shows only the direction. iWARP is not modelled.",
  x: NETWORK,
  mix: (x) => mix(x === IB ? 'cx3-56g' : 'cx4-40g', APPS, { duration: '22ms', warmup: '2ms' }),
  policies: ['none'],
  panels: [
    bandwidth('short', { title: 'Bandwidth with 1 MB' }),
    bandwidth('long', { title: 'Bandwidth with 1 GB' }),
    {
      title: '1 GB relative to 1 MB',
      unit: 'x',
      measure: (run) => gbps(run, 'long') / gbps(run, 'short'),
      paper: stated<Network>('none', '3.1.3', [
        [IB, 1.42],
        [ROCE, 1.22],
      ]),
    },
  ],
};

const figure6: Figure<string> = {
  number: '6',
  ...dareAndCrail,
  source: 'Justitia 3.2, fig. 6',
  policies: ['none'],
};

const SIZES = [1e3, 2e3, 5e3, 10e3, 20e3, 50e3, 100e3, 1e6];

const figure10: Figure<number> = {
  number: '10',
  title: 'Bandwidth by message size',
  source: 'Justitia 5.2, fig. 10, from which 5 KB was chosen as the chunk size',
  note: 'One queue pair with 16 messages outstanding. The bandwidth of ConnectX-3 dips where messages become longer than the read-ahead (16 KiB): when a unit has sent one message, the next has not arrived yet.',
  x: { title: 'message size', values: SIZES, log: true, bytes: true },
  mix: (bytes) => onInfiniBand([`B:size=${bytes},depth=16`], { duration: '5ms' }),
  policies: [],
  series: { InfiniBand: () => ({}), RoCEv2: () => ({ profile: 'cx4-40g' }) },
  panels: [bandwidth('B')],
};

export const FIGURES: readonly Figure[] = [figure3, figure4, figure5, figure6, figure10];
