/** A program does not notice that running numbers wrap, without a shim or under a chain. */
// @module-tag wide
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Chain, chains, tagsOfWay } from './chains.ts';
import { ENDS, highNumbers } from './high-numbers.ts';
import { program, runProgram } from './program.ts';
import { simGround } from './sim-ground.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 20);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_124);

const all = { bare: { chain: () => [] }, ...chains };

for (const [name, { chain, wait }] of Object.entries<Chain>(all)) {
  test(name, { tags: tagsOfWay(name), timeout: 120_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(program, fc.constantFrom(...ENDS), async (p, first) => {
        const bare = await runProgram(p, [], simGround(wait));
        const ground = simGround(wait);
        const interceptors = chain();
        const at = { send: first, recv: interceptors.length === 0 ? first : 0 };
        const around = highNumbers(ground.fabric, first, interceptors);
        expect(await runProgram(p, around, { ...ground, first: at })).toEqual(bare);
      }),
      { numRuns: RUNS, seed: SEED },
    );
  });
}
