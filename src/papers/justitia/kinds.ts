/** The applications and devices of Justitia's benchmarks, and the mixture of figs. 6 and 16. */
import type { Mix } from '../../mix/mixture.ts';
import type { Figure } from '../engine/figure.ts';
import { type MixOptions, mix } from '../engine/mix.ts';
import { bandwidth, median, p99, stated, toAlone } from '../engine/panels.ts';
import { SETTLED } from './declared.ts';

/** A latency-sensitive, a throughput-sensitive and a bandwidth-sensitive application. */
export const L = 'D:size=16,think=1us';
export const T = 'M:size=16,batch=64';
export const B = 'B:size=1MB';

export const IB = 'InfiniBand, 56 Gbps';
export const ROCE = 'RoCEv2, 40 Gbps';
const PROFILES = { [IB]: 'cx3-56g', [ROCE]: 'cx4-40g' } as const;
export type Network = keyof typeof PROFILES;
export const NETWORK = { title: '', values: [IB, ROCE] as readonly Network[] };

/** As claims about Justitia. */
const LONG = SETTLED;

/** A mixture on either network. */
export const on =
  (...apps: readonly string[]) =>
  (network: Network): Mix =>
    mix(PROFILES[network], apps, LONG);

/** With a duration in `more`, the warm-up is that of short mixtures by default. */
export const onInfiniBand = (apps: readonly string[], more: MixOptions = {}): Mix =>
  mix(PROFILES[IB], apps, more.duration === undefined ? { ...LONG, ...more } : more);

/** A mixture on 10 Gbps RoCEv2 with congestion control. */
export const withDcqcn = (...apps: readonly string[]): Mix =>
  mix(PROFILES[ROCE], apps, { ...LONG, set: { linkGbps: 10, congestionControl: 'dcqcn' } });

/** Each of the parallel writes counts as an application. */
export const BY_FLOW = 'justitia:granularity=flow';

const DARE = 'D:name=dare,size=8-1024,think=1us';
const CRAIL = 'B:name=crail,size=1MB,qps=8';
const alone = () => onInfiniBand([DARE]);
const X = 'DARE and Crail';

/** Small requests, like those of DARE, alongside 8 parallel writes, like those of Crail. */
export const dareAndCrail = {
  title: 'Small requests, like those of DARE, alongside 8 parallel 1 MB writes, like those of Crail',
  note: 'A stand-in. A device on which 16 competitors increase latency 139 times cannot keep the effect of 8 down to 4.6 times.',
  x: { title: '', values: [X] },
  mix: () => onInfiniBand([CRAIL, DARE]),
  series: { 'DARE alone': alone },
  panels: [
    median('dare', { title: 'Median latency of DARE', log: true }),
    p99('dare', { title: '99th-percentile latency of DARE', log: true }),
    toAlone(
      p99('dare', { title: '99th-percentile latency of DARE', log: true }),
      alone,
      stated('none', '3.2', [[X, 4.6]]),
    ),
    bandwidth('crail', {
      title: 'Bandwidth of Crail',
      paper: [
        ...stated('none', '3.2', [[X, 51.1]]),
        ...stated(BY_FLOW, '6.1: 81 % of 51.1', [[X, 0.81 * 51.1]]),
      ],
    }),
  ],
} satisfies Omit<Figure<string>, 'number' | 'source'>;
