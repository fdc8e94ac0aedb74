/** The applications and devices of Justitia's benchmarks. */
import type { Mix } from '../../mix/mixture.ts';
import { type MixOptions, mix } from '../engine/mix.ts';

/** A latency-sensitive, a throughput-sensitive and a bandwidth-sensitive application. */
export const L = 'D:size=16,think=1us';
export const T = 'M:size=16,batch=64';
export const B = 'B:size=1MB';

export const IB = 'InfiniBand, 56 Gbps';
export const ROCE = 'RoCEv2, 40 Gbps';
const PROFILES = { [IB]: 'cx3-56g', [ROCE]: 'cx4-40g' } as const;
export type Network = keyof typeof PROFILES;
export const NETWORK = { title: '', values: [IB, ROCE] as readonly Network[] };

const LONG = { duration: '20ms' };

/** A mixture on either network. */
export const on =
  (...apps: readonly string[]) =>
  (network: Network): Mix =>
    mix(PROFILES[network], apps, LONG);

export const onInfiniBand = (apps: readonly string[], more: MixOptions = {}): Mix =>
  mix(PROFILES[IB], apps, { ...LONG, ...more });

/** A mixture on 10 Gbps RoCEv2 with congestion control. */
export const withDcqcn = (...apps: readonly string[]): Mix =>
  mix(PROFILES[ROCE], apps, { ...LONG, set: { linkGbps: 10, congestionControl: 'dcqcn' } });
