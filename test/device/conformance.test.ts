// Random programs on a real device must look the same with and without a policy. WAIT is emulated here.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { chains } from '../conformance/chains.ts';
import { runProgram } from '../conformance/program.ts';
import { device, realGround, realProgram } from './ground.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 8);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_120);

describe.skipIf(device === '')('random programs see no difference on a real device', () => {
  const names = ['pass-through', 'arbitrary', 'perf 1024, WAIT emulated', 'one by one'];
  test.each([...names, 'perf, in turns', 'perf, as it finds', 'token bucket'])(
    '%s',
    async (name) => {
      await fc.assert(
        fc.asyncProperty(realProgram, async (p) => {
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
