/** Justitia's figures of section 6.1: isolation. */
import { gbps } from '../../mix/metrics.ts';
import type { Figure } from '../engine/figure.ts';
import { mix } from '../engine/mix.ts';
import { bandwidth, median, p99, rate } from '../engine/panels.ts';
import { B, BY_FLOW, dareAndCrail, IB, L, NETWORK, type Network, on, T } from './kinds.ts';

const figure11: Figure<Network> = {
  number: '11',
  title: 'Isolation of a latency application from a bandwidth application',
  source: 'Justitia 6.1, fig. 11: under Justitia, the bandwidth application gets half the capacity',
  note: 'iWARP is not modelled.',
  x: NETWORK,
  mix: on(B, L),
  series: { alone: on(L) },
  panels: [median<Network>('D'), p99<Network>('D'), bandwidth<Network>('B')],
};

const figure12: Figure<Network> = {
  number: '12',
  title: 'A latency application alongside a bandwidth application with 4 queue pairs',
  source: 'Justitia 6.1, fig. 12: a target of 10 us is met at the highest possible utilisation',
  x: NETWORK,
  mix: on('B:size=1MB,qps=4', L),
  series: {
    alone: on(L),
    'justitia, 10 us': () => ({ policy: 'justitia:targetUs=10', duration: '120ms', warmup: '90ms' }),
  },
  panels: [median<Network>('D'), p99<Network>('D'), bandwidth<Network>('B')],
};

const APPS = ['B:name=short,size=1MB,depth=1', 'B:name=long,size=1GB,depth=1'];

const figure13a: Figure<Network> = {
  number: '13a',
  title: 'Shares of bandwidth applications with messages of 1 MB and of 1 GB',
  source: 'Justitia 6.1, fig. 13(a): equal under Justitia, at a cost below 6 % (InfiniBand) and 2 % (RoCEv2)',
  note: 'With one request outstanding.',
  x: NETWORK,
  mix: (x) => mix(x === IB ? 'cx3-56g' : 'cx4-40g', APPS, { duration: '22ms', warmup: '2ms' }),
  panels: [
    bandwidth('short', { title: 'Bandwidth with 1 MB' }),
    bandwidth('long', { title: 'Bandwidth with 1 GB' }),
    { title: 'Bandwidth of both', unit: 'Gbps', measure: (run) => gbps(run, 'short') + gbps(run, 'long') },
  ],
};

const figure13b: Figure<Network> = {
  number: '13b',
  title: 'Shares of bandwidth applications with one and with 16 queue pairs',
  source: 'Justitia 6.1, fig. 13(b): equal under Justitia',
  x: NETWORK,
  mix: on('B:name=one,size=1MB', 'B:name=many,size=1MB,qps=16'),
  panels: [
    bandwidth('one', { title: 'Bandwidth of one queue pair' }),
    bandwidth('many', { title: 'Bandwidth of 16 queue pairs' }),
    { title: 'Bandwidth of both', unit: 'Gbps', measure: (run) => gbps(run, 'one') + gbps(run, 'many') },
  ],
};

const figure14: Figure<Network> = {
  number: '14',
  title: 'A latency application alongside a throughput application',
  source: 'Justitia 6.1, fig. 14: negligible overhead',
  x: NETWORK,
  mix: on(L, T),
  series: { 'D alone': on(L), 'M alone': on(T) },
  panels: [median<Network>('D'), p99<Network>('D'), rate<Network>('M')],
};

const figure15: Figure<Network> = {
  number: '15',
  title: 'Isolation of a throughput application from a bandwidth application',
  source: 'Justitia 6.1, fig. 15: under Justitia, each gets half of what it gets alone',
  x: NETWORK,
  mix: on(B, T),
  series: { 'M alone': on(T), 'B alone': on(B) },
  panels: [rate<Network>('M'), bandwidth<Network>('B')],
};

const figure16: Figure<string> = {
  number: '16',
  ...dareAndCrail,
  source: 'Justitia 6.1, fig. 16: under Justitia, the tail is 3.4 times better and Crail keeps 81 %',
  series: { ...dareAndCrail.series, [BY_FLOW]: () => ({ policy: BY_FLOW }) },
};

export const FIGURES: readonly Figure[] = [
  figure11,
  figure12,
  figure13a,
  figure13b,
  figure14,
  figure15,
  figure16,
];
