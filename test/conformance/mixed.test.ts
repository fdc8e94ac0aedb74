import fc from 'fast-check';
import { expect, test } from 'vitest';
import { chains } from './chains.ts';
import { mixedProgram, runMixed } from './mixed.ts';
import { simGround } from './sim-ground.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 60);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_121);

for (const [name, { chain, wait, share = 1 }] of Object.entries(chains)) {
  test(`a program over all of verbs cannot tell: ${name}`, async () => {
    await fc.assert(
      fc.asyncProperty(mixedProgram(), async (p) => {
        const bare = await runMixed(p, [], simGround(wait));
        const shimmed = await runMixed(p, chain(), simGround(wait));
        expect(shimmed).toEqual(bare);
      }),
      { numRuns: Math.ceil(RUNS * share), seed: SEED },
    );
  }, 600_000);
}
