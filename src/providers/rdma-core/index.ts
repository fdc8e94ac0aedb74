/** Real devices: rdma-core through the addon. */
import type { Provider, SleepKeeps } from '../../verbs/provider.ts';
import { requireNative } from './addon.ts';
import { connectionManager } from './cm.ts';
import { cqVerbs } from './cq-verbs.ts';
import { deviceVerbs, PROVIDER_NAME } from './device-verbs.ts';
import { memoryVerbs, windowVerbs } from './memory-verbs.ts';
import { qpExVerbs } from './qp-ex-verbs.ts';
import { qpVerbs } from './qp-verbs.ts';
import { tcpRendezvous } from './rendezvous.ts';
import { srqVerbs } from './srq-verbs.ts';

export { type AddonStatus, addonStatus, isAddonAvailable } from './addon.ts';

const NS_PER_MS = 1e6;

/** The monotonic clock, the same in all threads: performance.now() alone begins anew in each worker. */
function monotonicClock(): () => number {
  const [seconds, nanoseconds] = process.hrtime();
  const originNs = seconds * 1e9 + nanoseconds - performance.now() * NS_PER_MS;
  return () => originNs + performance.now() * NS_PER_MS;
}

/** Real devices. @throws NoDeviceError, saying what to install, where the addon cannot be used */
export function createRdmaCoreProvider(): Provider {
  const native = requireNative();
  return Object.freeze({
    name: PROVIDER_NAME,
    threads: 'any',
    wait: 'none',
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
