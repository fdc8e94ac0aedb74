/** Where random programs (test/conformance) run on a real device. */
import { setTimeout as delay } from 'node:timers/promises';
import { createRdmaCoreProvider } from '../../src/providers/rdma-core/index.ts';
import { IBV_SEND_FENCE } from '../../src/verbs/index.ts';
import { type Ground, type Op, type Program, program } from '../conformance/program.ts';
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

/** The programs of test/conformance with each request changed by `change`. */
export const programsWith = (change: (op: Op) => Op, edit: Partial<Program> = {}) =>
  program.map((p) => ({
    ...p,
    ...edit,
    steps: p.steps.map((step) => (step.do === 'post' ? { ...step, ops: step.ops.map(change) } : step)),
  }));

/** soft-RoCE never completes a READ or atomic with FENCE that it has to send again (docs/testing.md). */
export function withoutFencedRead(op: Op): Op {
  const isRead = op.kind === 'read' || op.kind === 'fetchAdd' || op.kind === 'compareSwap';
  return isRead ? { ...op, flags: op.flags & ~IBV_SEND_FENCE } : op;
}

/** Random programs that a real device can complete, even if it loses packets. */
export const realProgram = programsWith(withoutFencedRead);
