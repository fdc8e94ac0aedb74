/** Real devices, through rdma-core and the addon. */
import type { Provider, SleepKeeps } from '../../verbs/provider.ts';
import { type NativeVerbs, requireNative } from './addon.ts';
import { connectionManager } from './cm.ts';
import { cqVerbs } from './cq-verbs.ts';
import { deviceVerbs, PROVIDER_NAME } from './device-verbs.ts';
import { memoryVerbs, windowVerbs } from './memory-verbs.ts';
import { describeNic } from './nic.ts';
import { qpExVerbs } from './qp-ex-verbs.ts';
import { qpVerbs } from './qp-verbs.ts';
import { tcpRendezvous } from './rendezvous.ts';
import { srqVerbs } from './srq-verbs.ts';

export { type AddonStatus, addonStatus, isAddonAvailable } from './addon.ts';

const NS_PER_MS = 1e6;

/**
 * CLOCK_MONOTONIC, which all threads and processes of a host share, accurate to the microsecond between the
 * two readings here; performance.now() alone starts anew in each.
 */
function monotonicClock(): () => number {
  const [seconds, nanoseconds] = process.hrtime();
  const originNs = seconds * 1e9 + nanoseconds - performance.now() * NS_PER_MS;
  return () => originNs + performance.now() * NS_PER_MS;
}

/** Probed on request only, because the probe creates a queue pair. */
function describeWait(native: NativeVerbs, context: number): string {
  const emulated = 'WAIT and ENABLE are emulated under the policies that need them';
  if (process.env.ISOVERBS_MLX5_WAIT !== '1')
    return `${emulated}; ISOVERBS_MLX5_WAIT=1 probes an mlx5 card for WAIT`;
  const reason = native.probeWait(context);
  if (reason !== '') return `${emulated}; no hardware support: ${reason}`;
  return `${emulated}; the card executed a WAIT, but policies do not use it yet`;
}

/** The provider for real devices. @throws NoDeviceError, with what to install, if the addon cannot be used */
export function createRdmaCoreProvider(): Provider {
  const native = requireNative();
  return Object.freeze({
    name: PROVIDER_NAME,
    threads: 'any',
    wait: 'none',
    describeWait: (context: number) => describeWait(native, context),
    describeNic: (context: number) => describeNic(native, context),
    interceptors: Object.freeze([]),
    ...connectionManager(native),
    rendezvous: tcpRendezvous,
    ...deviceVerbs(native),
    ...memoryVerbs(native),
    ...windowVerbs(native),
    ...cqVerbs(native),
    ...qpVerbs(native),
    ...qpExVerbs(native),
    ...srqVerbs(native),
    nowNs: monotonicClock(),
    sleep: (_context: number, delayNs: number, keeps: SleepKeeps = 'program') =>
      new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, delayNs / NS_PER_MS);
        if (keeps !== 'program') timer.unref();
      }),
  });
}
