/** Real devices, through rdma-core and the addon. */
import { InvalidHandleError } from '../../verbs/errors.ts';
import { describeHandle } from '../../verbs/handles.ts';
import type { Provider, SleepKeeps } from '../../verbs/provider.ts';
import { labelVerbs } from '../labels.ts';
import { type NativeVerbs, requireNative } from './addon.ts';
import { EventLoopAlarm, monotonicClock, sleepInRealTime } from './alarm.ts';
import { connectionManager } from './cm.ts';
import { cqVerbs } from './cq-verbs.ts';
import { deviceVerbs, PROVIDER_NAME } from './device-verbs.ts';
import { memoryVerbs, windowVerbs } from './memory-verbs.ts';
import { describeNic } from './nic.ts';
import { qpExVerbs, qpVerbs } from './qp-verbs.ts';
import { tcpRendezvous } from './rendezvous.ts';
import { srqVerbs } from './srq-verbs.ts';

export { type AddonStatus, addonStatus, isAddonAvailable } from './addon.ts';

/** Probed on request only, because the probe creates a queue pair. */
function describeWait(native: NativeVerbs, context: number): string {
  const emulated = 'WAIT and ENABLE are emulated under the policies that need them';
  if (process.env.ISOVERBS_MLX5_WAIT !== '1')
    return `${emulated}; ISOVERBS_MLX5_WAIT=1 probes an mlx5 card for WAIT`;
  const reason = native.probeWait(context);
  if (reason !== '') return `${emulated}; no hardware support: ${reason}`;
  return `${emulated}; the card executed a WAIT, but policies do not use it yet`;
}

/** @throws InvalidHandleError that names the verb. The addon's own check names a verb of libibverbs. */
function requireContext(native: NativeVerbs, verb: string, context: number): void {
  try {
    native.queryDevice(context);
  } catch (cause) {
    if (!(cause instanceof InvalidHandleError)) throw cause;
    throw new InvalidHandleError(`${verb} needs a live context, got ${describeHandle(context)}`, {
      verb,
      cause,
    });
  }
}

/** The provider for real devices. @throws NoDeviceError, with what to install, if the addon cannot be used */
export function createRdmaCoreProvider(): Provider {
  const native = requireNative();
  const queuePairs = qpVerbs(native);
  const labelled = labelVerbs({
    openDevice: deviceVerbs(native).openDevice,
    allocPd: native.allocPd,
    openXrcd: native.openXrcd,
    ...queuePairs,
    closeDevice: native.closeDevice,
    requireContext: (context, verb) => requireContext(native, verb, context),
    requireQp: native.knownState,
  });
  const nowNs = monotonicClock();
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
    ...queuePairs,
    ...qpExVerbs(native),
    ...srqVerbs(native),
    ...labelled,
    nowNs,
    createAlarm: (_context: number, _keeps: SleepKeeps, listener: () => void) =>
      new EventLoopAlarm(nowNs, listener),
    sleep: sleepInRealTime,
  });
}
