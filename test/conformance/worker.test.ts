/** The programs of shim.test.ts under policies that run in a worker thread. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { workerDriver } from '../../src/drivers/worker/front.ts';
import { count } from '../../src/interceptors/index.ts';
import { compose } from '../../src/shim/compose.ts';
import { program, runProgram } from './program.ts';
import { simGround } from './sim-ground.ts';
import { perfSpec, workerChains } from './worker-chains.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 8);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_123);

for (const [name, { chain, wait }] of Object.entries(workerChains)) {
  test(`a program cannot tell: ${name} in a worker`, async () => {
    await fc.assert(
      fc.asyncProperty(program, async (p) => {
        const bare = await runProgram(p, [], simGround(wait));
        const shimmed = await runProgram(p, chain(), simGround(wait));
        expect(shimmed).toEqual(bare);
      }),
      { numRuns: RUNS, seed: SEED },
    );
  }, 600_000);
}

test('what the worker decides reaches the device: one large WRITE becomes many, one small one stays', async () => {
  for (const [bytes, least, most] of [
    [100, 1, 1],
    [12_000, 12_000 / 256, 1000],
  ]) {
    const ground = simGround();
    const below = count();
    const provider = compose(ground.provider, [below]);
    const op = {
      kind: 'write' as const,
      sges: [bytes],
      local: 0,
      remote: 0,
      flags: 2,
      fault: 'none' as const,
    };
    const p = { qps: 1, sigAll: false, sharedCq: false, steps: [{ do: 'post' as const, qp: 0, ops: [op] }] };
    await runProgram(p, [workerDriver([perfSpec(256, 64)])], { ...ground, provider });
    expect(below.counts.sends).toBeGreaterThanOrEqual(least);
    expect(below.counts.sends).toBeLessThanOrEqual(most);
  }
});
