/** Random programs between two ends whose shims have agreed: SENDs and immediates go in pieces. */
// @module-tag wide
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { tagsIf } from '../support/variants.ts';
import { chains } from './chains.ts';
import { mixedProgram, runMixed } from './mixed.ts';
import { negotiate } from './negotiate.ts';
import { program, runProgram } from './program.ts';
import { simGround } from './sim-ground.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 20);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_122);

/** Chains that cut requests. */
const names = [
  ...['arbitrary', 'arbitrary over arbitrary', 'perf 256', 'perf 1024, WAIT emulated'],
  'justitia, declared bandwidth, over split queue pairs',
];
/** The others are variants of these. */
const SHORT = ['arbitrary', 'perf 256', 'justitia, declared bandwidth, over split queue pairs'];

for (const name of names) {
  const { chain, wait } = chains[name];
  const options = { tags: tagsIf(SHORT.includes(name)), timeout: 600_000 };
  test(`a program between shimmed ends sees no difference: ${name}`, options, async () => {
    await fc.assert(
      fc.asyncProperty(program, async (p) => {
        const bare = await runProgram(p, [], simGround(wait));
        const shimmed = await runProgram(p, [negotiate(), ...chain()], simGround(wait));
        expect(shimmed).toEqual(bare);
      }),
      { numRuns: RUNS, seed: SEED },
    );
  });

  test(`a program over all verbs between shimmed ends sees no difference: ${name}`, options, async () => {
    await fc.assert(
      fc.asyncProperty(mixedProgram(), async (p) => {
        const bare = await runMixed(p, [], simGround(wait));
        const shimmed = await runMixed(p, [negotiate(), ...chain()], simGround(wait));
        expect(shimmed).toEqual(bare);
      }),
      { numRuns: RUNS, seed: SEED },
    );
  });
}
