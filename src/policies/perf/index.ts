import { CoordinatorRegistry, registryFor } from '../../coordinator/registry.ts';
import type { Interceptor } from '../../shim/compose.ts';
import { gateOfAll } from '../../shim/gate.ts';
import { readByRemoteControl } from '../../shim/peer/remote-read.ts';
import { createShim } from '../../shim/shim.ts';
import { withWait } from '../../shim/wait/wait-support.ts';
import { tokenBucket } from '../token-bucket/index.ts';
import { tokenBucketOptions } from '../token-bucket/options.ts';
import { FirstTurns } from './mqse.ts';
import { isLimited, type PerfOptions } from './options.ts';
import { Perf } from './perf.ts';

/** Creates the policy perf: preemption by splitting and 0_WAITs. WAIT is emulated where the device lacks it. */
export function perf(options: PerfOptions): Interceptor {
  const { emulation, zeroWait, yieldBytes } = options;
  const limits = limitsOf(options);
  // All hosts of a simulation draw from one sequence.
  const firstTurns = new FirstTurns(options.seed);
  const outside = [
    ...limits,
    ...(options.readByRemoteControl ? [readByRemoteControl({ minBytes: options.subMsgSizeBytes + 1 })] : []),
  ];
  const around = (coordinator: CoordinatorRegistry) => {
    const shim = createShim(() => new Perf(options, coordinator, firstTurns), { coordinator });
    return withWait(shim, 'preferred', { emulation, zeroWait, yieldBytes }, outside);
  };
  return {
    name: 'perf',
    // All policies around a provider share the coordinators of its devices.
    wrap: (next) => around(registryFor(next)).wrap(next),
    gate: (wait) => gateOfAll([...limits, around(new CoordinatorRegistry())].map((one) => one.gate!(wait))),
  };
}

/** With weights or rates, token buckets surround the policy. */
function limitsOf(options: PerfOptions): Interceptor[] {
  if (!isLimited(options)) return [];
  const { weights, ratesGbps, linkGbps, subMsgSizeBytes } = options;
  return [
    tokenBucket(tokenBucketOptions.parse({ weights, ratesGbps, linkGbps, pieceBytes: subMsgSizeBytes })),
  ];
}
