import fc from 'fast-check';
import { expect, test } from 'vitest';
import { chains } from './chains.ts';
import { program, runProgram } from './program.ts';
import { simGround } from './sim-ground.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 300);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_120);

for (const [name, { chain, wait, share = 1 }] of Object.entries(chains)) {
  test(`a program cannot tell: ${name}`, async () => {
    await fc.assert(
      fc.asyncProperty(program, async (p) => {
        const bare = await runProgram(p, [], simGround(wait));
        const shimmed = await runProgram(p, chain(), simGround(wait));
        expect(shimmed).toEqual(bare);
      }),
      { numRuns: Math.ceil(RUNS * share), seed: SEED },
    );
  }, 600_000);
}
