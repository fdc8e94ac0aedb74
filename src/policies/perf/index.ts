import { Coordinators, coordinatorsOf } from '../../coordinator/coordinators.ts';
import type { Interceptor } from '../../shim/compose.ts';
import { readByRemoteControl } from '../../shim/peer/remote-read.ts';
import { createShim } from '../../shim/shim.ts';
import { withWait } from '../../shim/wait-support.ts';
import type { PerfOptions } from './options.ts';
import { Perf } from './perf.ts';

/** PeRF: preemption by splitting and 0_WAITs. WAIT is emulated where the device has none. */
export function perf(options: PerfOptions): Interceptor {
  const { emulation, zeroWait, yieldBytes } = options;
  const outside = options.readByRemoteControl
    ? [readByRemoteControl({ minBytes: options.subMsgSizeBytes + 1 })]
    : [];
  const around = (coordinator: Coordinators) => {
    const shim = createShim(() => new Perf(options, coordinator), { coordinator });
    return withWait(shim, 'preferred', { emulation, zeroWait, yieldBytes }, outside);
  };
  return {
    name: 'perf',
    // All policies around a provider meet at the coordinators of its devices.
    wrap: (next) => around(coordinatorsOf(next)).wrap(next),
    gate: (wait) => around(new Coordinators()).gate!(wait),
  };
}
