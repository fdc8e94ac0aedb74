/** Justitia's figures of appendix D: its sensitivity to parameters. */
import { gauge, mean, p99Us } from '../../mix/metrics.ts';
import type { Figure, Panel } from '../engine/figure.ts';
import { mix } from '../engine/mix.ts';
import { bandwidth, median, p99 } from '../engine/panels.ts';
import { ARRIVALS, ARRIVING, b, d } from './declared.ts';
import { onInfiniBand } from './kinds.ts';

/** Four bandwidth applications of this weight, and a latency application. */
const weighted = (weight: number) => onInfiniBand([b(`size=1MB,count=4,weight=${weight}`), d()]);

const PANELS: readonly Panel<number>[] = [
  bandwidth('B', { title: 'Bandwidth of all B' }),
  median<number>('D'),
  p99<number>('D'),
];

const figure37: Figure<number> = {
  number: '37',
  title: 'Weights of four bandwidth applications alongside a latency application',
  source:
    'Justitia appendix D, fig. 37: bandwidth grows with the weight, and latency isolation suffers little',
  note: 'A p99 of 2 us cannot be reached on this device, so they get R_min: 4 w / (4 w + 1) of MaxRate.',
  x: { title: 'weight', values: [1, 2, 4, 8, 16], log: true },
  mix: weighted,
  policies: ['none', 'perf', 'justitia', 'justitia:paper'],
  panels: PANELS,
};

const WEIGHT = 2;

const figure38: Figure<number> = {
  number: '38',
  title: 'Chunk sizes, with four bandwidth applications of weight 2 and a latency application',
  source:
    'Justitia appendix D, fig. 38: smaller chunks isolate better, but do not reach SafeUtil; too large ones do not isolate enough',
  x: {
    title: 'chunk size',
    values: [500, 1e3, 2e3, 5e3, 10e3, 20e3, 50e3, 100e3, 1e6],
    log: true,
    bytes: true,
  },
  mix: () => weighted(WEIGHT),
  policies: ['none'],
  series: {
    justitia: (bytes) => ({ policy: `justitia:chunkBytes=${bytes}` }),
    'justitia:paper': (bytes) => ({ policy: `justitia:paper,chunkBytes=${bytes}` }),
  },
  panels: PANELS,
};

const figure39: Figure<number> = {
  number: '39',
  title: 'The window of the estimate, after the arrival of further bandwidth applications',
  source: 'Justitia appendix D, fig. 39: the tail is tracked closely unless RefCount is huge; default 10,000',
  note: 'Bandwidth applications arrive 100 ms apart, in the paper 1 s. Measured from 200 to 250 ms after the last arrival. A window of 100,000 samples is 2 s, and the run ends before it is full.',
  x: { title: 'RefCount', values: [100, 1000, 10_000, 100_000], log: true },
  mix: () => mix('cx3-56g', ARRIVALS, ARRIVING),
  policies: ['none'],
  series: {
    justitia: (refCount) => ({ policy: `justitia:refCount=${refCount}` }),
    'justitia:paper': (refCount) => ({ policy: `justitia:paper,refCount=${refCount}` }),
  },
  panels: [
    median('D'),
    p99('D'),
    {
      title: 'Estimate, relative to the p99 latency of D',
      unit: 'x',
      measure: (run) => mean(gauge(run, 'estimate')) / p99Us(run, 'D'),
    },
    bandwidth('B', { title: 'Bandwidth of all B' }),
  ],
};

export const FIGURES: readonly Figure[] = [figure37, figure38, figure39];
