// Random programs on a real device must look the same with and without a policy. WAIT is emulated here.
import fc from 'fast-check';
import { describe, expect } from 'vitest';
import { chains } from '../conformance/chains.ts';
import { runProgram } from '../conformance/program.ts';
import { eachShort } from '../support/variants.ts';
import { device, realGround, realProgram } from './ground.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 8);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_120);

describe.skipIf(device === '')('random programs see no difference on a real device', () => {
  const names = ['arbitrary', 'perf 1024, WAIT emulated', 'perf, in turns', 'token bucket'];
  eachShort(names.length, [...names, 'pass-through', 'one by one', 'perf, as it finds'])(
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
