// Random programs on a real device: bare and under a policy they must look the same. WAIT is emulated here.
import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createRdmaCoreProvider } from '../../src/providers/rdma-core/index.ts';
import { chains } from '../conformance/chains.ts';
import { type Ground, program, runProgram } from '../conformance/program.ts';
import { findDevice } from './rig.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 8);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_120);
const found = findDevice();
const device = typeof found === 'string' ? '' : found.name;

function realGround(): Ground {
  return {
    provider: createRdmaCoreProvider(),
    devices: [device, process.env.RXE_DEV2 ?? device],
    gidIndex: 1,
    // soft-RoCE frees what is unsignaled by itself, and takes more than it granted.
    strictQueues: false,
    idlePolls: 8,
    run: () => delay(5),
    advance: () => delay(0),
  };
}

describe.skipIf(device === '')('a program cannot tell, on a real device', () => {
  test.each(['pass-through', 'arbitrary', 'perf 1024, WAIT emulated', 'one by one'])(
    '%s',
    async (name) => {
      await fc.assert(
        fc.asyncProperty(program, async (p) => {
          const bare = await runProgram(p, [], realGround());
          const shimmed = await runProgram(p, chains[name].chain(), realGround());
          expect(shimmed).toEqual(bare);
        }),
        { numRuns: RUNS, seed: SEED, endOnFailure: true },
      );
    },
    300_000,
  );
});
