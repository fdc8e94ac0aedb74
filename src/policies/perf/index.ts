import type { Interceptor } from '../../shim/compose.ts';
import { readByRemoteControl } from '../../shim/peer/remote-read.ts';
import { createShim } from '../../shim/shim.ts';
import { withWait } from '../../shim/wait-support.ts';
import { Lmse } from './lmse.ts';
import type { PerfOptions } from './options.ts';

/** PeRF: preemption by splitting and 0_WAITs. WAIT is emulated where the device has none. */
export function perf(options: PerfOptions): Interceptor {
  const { emulation, zeroWait, yieldBytes } = options;
  const shim = createShim(() => new Lmse(options));
  const outside = options.readByRemoteControl
    ? [readByRemoteControl({ minBytes: options.subMsgSizeBytes + 1 })]
    : [];
  return withWait(shim, 'preferred', { emulation, zeroWait, yieldBytes }, outside);
}
