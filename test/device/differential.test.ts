// The same random programs on a simulated device and on a real one: what an application can see must agree, but for
// what is known of soft-RoCE (each departure is left out by name).
import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createRdmaCoreProvider } from '../../src/providers/rdma-core/index.ts';
import { mixedProgram, runMixed } from '../conformance/mixed.ts';
import { type Ground, program, runProgram } from '../conformance/program.ts';
import { simGround } from '../conformance/sim-ground.ts';
import { findDevice } from './rig.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 12);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_121);
const found = findDevice();
const device = typeof found === 'string' ? '' : found.name;

function realGround(): Ground {
  return {
    provider: createRdmaCoreProvider(),
    devices: [device, process.env.RXE_DEV2 ?? device],
    gidIndex: 1,
    strictQueues: false,
    idlePolls: 8,
    run: () => delay(5),
    advance: () => delay(0),
  };
}

/** A simulated device as lax about its queues as soft-RoCE: programs never fill them. */
const laxSim = (): Ground => ({ ...simGround(), strictQueues: false });

describe.skipIf(device === '')('a simulated device and a real one look the same', () => {
  test('programs of RC queue pairs', async () => {
    await fc.assert(
      fc.asyncProperty(program, async (p) => {
        const simulated = await runProgram(p, [], laxSim());
        const real = await runProgram(p, [], realGround());
        expect(real.trace).toEqual(simulated.trace);
      }),
      { numRuns: RUNS, seed: SEED, endOnFailure: true },
    );
  }, 300_000);

  test('programs over all of verbs', async () => {
    await fc.assert(
      fc.asyncProperty(mixedProgram({ windows: true }), async (p) => {
        const simulated = await runMixed(p, [], laxSim());
        const real = await runMixed(p, [], realGround());
        expect(real).toEqual(simulated);
      }),
      { numRuns: RUNS, seed: SEED },
    );
  }, 300_000);
});
