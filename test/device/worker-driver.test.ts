// Policies in a worker thread on a real device: the worker calls the addon and polls without the main thread.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Op, runProgram } from '../conformance/program.ts';
import { workerChains } from '../conformance/worker-chains.ts';
import { device, programsWith, realGround, withoutFencedRead } from './ground.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 2);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_124);

/**
 * No event reports when an unsignaled request has completed, and a worker on a busy machine may take long. Also,
 * soft-RoCE sometimes never completes the requests before a send that fails locally, with or without a worker.
 */
const reporting = programsWith((op) => withoutLocalFault(withoutFencedRead(op)), { sigAll: true });

function withoutLocalFault(op: Op): Op {
  return op.fault === 'lkey' ? { ...op, fault: 'none' } : op;
}

describe.skipIf(device === '')('a program sees no difference on a real device', () => {
  for (const name of ['pass-through', 'arbitrary', 'perf 256']) {
    test(`${name} in a worker`, { timeout: 120_000 }, async () => {
      await fc.assert(
        fc.asyncProperty(reporting, async (p) => {
          const bare = await runProgram(p, [], realGround());
          expect(await runProgram(p, workerChains[name].chain(), realGround())).toEqual(bare);
        }),
        { numRuns: RUNS, seed: SEED, endOnFailure: true },
      );
    });
  }
});
