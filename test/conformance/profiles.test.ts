/**
 * Programs on every NIC of the model: caches, units, PCIe and schedulers change the times of events, never the results.
 */
// @module-tag wide
import fc from 'fast-check';
import { expect } from 'vitest';
import { PROFILES } from '../../src/providers/sim/index.ts';
import { variants } from '../support/variants.ts';
import { chains } from './chains.ts';
import { mixedProgram, runMixed } from './mixed.ts';
import { simGround } from './sim-ground.ts';

const RUNS = Math.ceil(Number(process.env.ISOVERBS_RUNS ?? 60) / 4);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_122);
const NAMES = ['arbitrary', 'perf 256', 'perf 16384'];

for (const profile of Object.keys(PROFILES).filter((name) => name !== 'minimal')) {
  variants(
    `a program over all verbs sees no difference on ${profile}: %s`,
    NAMES,
    async (name) => {
      const { chain, wait } = chains[name];
      await fc.assert(
        fc.asyncProperty(mixedProgram(), async (p) => {
          const bare = await runMixed(p, [], simGround(wait, profile));
          const shimmed = await runMixed(p, chain(), simGround(wait, profile));
          expect(shimmed).toEqual(bare);
        }),
        { numRuns: RUNS, seed: SEED },
      );
    },
    { timeout: 600_000 },
  );
}
