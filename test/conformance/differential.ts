/**
 * Differential properties: a random program sees the same under a chain of interceptors as without one. `check` runs a
 * number of programs of one kind under one chain. The seed depends on the chain, so that no two chains run the same programs.
 */
import fc from 'fast-check';
import { expect } from 'vitest';
import { chains } from './chains.ts';
import { eventProgram, runEvents } from './events.ts';
import { mixedProgram, runMixed } from './mixed.ts';
import { program, runProgram } from './program.ts';
import { simGround } from './sim-ground.ts';

type Property = (chain: string) => fc.IAsyncPropertyWithHooks<[unknown]>;

/** Kinds of programs. */
export const kinds: Record<'reliable' | 'mixed' | 'events', Property> = {
  reliable: (name) =>
    fc.asyncProperty(program as fc.Arbitrary<unknown>, async (one) => {
      const { chain, wait } = chains[name];
      const p = one as Parameters<typeof runProgram>[0];
      const bare = await runProgram(p, [], simGround(wait));
      expect(await runProgram(p, chain(), simGround(wait))).toEqual(bare);
    }),
  mixed: (name) =>
    fc.asyncProperty(mixedProgram() as fc.Arbitrary<unknown>, async (one) => {
      const { chain, wait } = chains[name];
      const p = one as Parameters<typeof runMixed>[0];
      const bare = await runMixed(p, [], simGround(wait));
      expect(await runMixed(p, chain(), simGround(wait))).toEqual(bare);
    }),
  events: (name) =>
    fc.asyncProperty(eventProgram as fc.Arbitrary<unknown>, async (one) => {
      const { chain, wait } = chains[name];
      const p = one as Parameters<typeof runEvents>[0];
      const bare = await runEvents(p, [], wait);
      expect(bare.unfinished).not.toContain(true);
      expect(await runEvents(p, chain(), wait)).toEqual(bare);
    }),
};

export type Kind = keyof typeof kinds;
export const chainNames = Object.keys(chains);

/** Runs random programs; a failure is shrunk and reported with its seed. */
export async function check(kind: Kind, chain: string, runs: number, seed: number): Promise<void> {
  const own = (seed + chainNames.indexOf(chain) * 1_000_003) | 0;
  const numRuns = Math.ceil(runs * (chains[chain].share ?? 1));
  await fc.assert(kinds[kind](chain), { numRuns, seed: own });
}

/** ISOVERBS_RUNS and ISOVERBS_SEED, or how many of a kind `npm test` runs under each chain. */
export function plan(kind: Kind): { runs: number; seed: number } {
  const runs = Number(process.env.ISOVERBS_RUNS ?? { reliable: 120, mixed: 220, events: 45 }[kind]);
  const seed = Number(process.env.ISOVERBS_SEED ?? 20_261_120);
  const programs = Object.values(chains).reduce((sum, { share = 1 }) => sum + Math.ceil(runs * share), 0);
  console.info(`${programs} programs (${kind}), seed ${seed}`);
  return { runs, seed };
}
