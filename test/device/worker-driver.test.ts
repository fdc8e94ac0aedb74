// Policies in a worker thread on a real device: there the worker calls the addon itself, and polls by itself.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { program, runProgram } from '../conformance/program.ts';
import { workerChains } from '../conformance/worker-chains.ts';
import { device, realGround } from './ground.ts';

/** Each starts two workers, which takes an emulated machine seconds. */
const RUNS = Number(process.env.ISOVERBS_RUNS ?? 2);
/** A worker that has just started takes an emulated machine long for its first requests. */
const IDLE_POLLS = 100;
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_124);

describe.skipIf(device === '')('a program cannot tell, on a real device', () => {
  for (const name of ['pass-through', 'arbitrary', 'perf 256']) {
    // A worker has failed to answer on soft-RoCE: until that is found, no part of CI (docs/configuration.md).
    test(`${name} in a worker`, { tags: ['long'], timeout: 300_000 }, async () => {
      await fc.assert(
        fc.asyncProperty(program, async (p) => {
          const bare = await runProgram(p, [], realGround(IDLE_POLLS));
          expect(await runProgram(p, workerChains[name].chain(), realGround(IDLE_POLLS))).toEqual(bare);
        }),
        { numRuns: RUNS, seed: SEED, endOnFailure: true },
      );
    });
  }
});
