/** Where random programs (test/conformance) run on a real device. */
import { setTimeout as delay } from 'node:timers/promises';
import { createRdmaCoreProvider } from '../../src/providers/rdma-core/index.ts';
import type { Ground } from '../conformance/program.ts';
import { findDevice } from './rig.ts';

const found = findDevice();

/** Name of the device; empty: there is none. */
export const device = typeof found === 'string' ? '' : found.name;

/** Eight empty polls, five milliseconds apart: by then unreported work has finished, too. */
export function realGround(): Ground {
  return {
    provider: createRdmaCoreProvider(),
    devices: [device, process.env.RXE_DEV2 ?? device],
    gidIndex: 1,
    // soft-RoCE frees unsignaled requests by itself, and accepts more requests than it granted.
    strictQueues: false,
    idlePolls: 8,
    patientPolls: 4000,
    run: () => delay(5),
    advance: () => delay(0),
  };
}
