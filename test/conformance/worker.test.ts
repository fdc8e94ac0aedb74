/** The programs of shim.test.ts under policies that run in a worker thread. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { workerDriver } from '../../src/drivers/worker/front.ts';
import { count } from '../../src/interceptors/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { type Op, type Program, program, runProgram } from './program.ts';
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

function oneWrite(bytes: number): Program {
  const op: Op = {
    kind: 'write',
    sges: [bytes],
    local: 0,
    remote: 0,
    flags: V.IBV_SEND_SIGNALED,
    fault: 'none',
  };
  return { qps: 1, sigAll: false, sharedCq: false, steps: [{ do: 'post', qp: 0, ops: [op] }] };
}

test('what the worker decides reaches the device: one large WRITE becomes many, one small one stays', async () => {
  for (const [bytes, least, most] of [
    [100, 1, 1],
    [12_000, 12_000 / 256, 1000],
  ]) {
    const ground = simGround();
    const below = count();
    const provider = compose(ground.provider, [below]);
    await runProgram(oneWrite(bytes), [workerDriver([perfSpec(256, 64)])], { ...ground, provider });
    expect(below.counts.sends).toBeGreaterThanOrEqual(least);
    expect(below.counts.sends).toBeLessThanOrEqual(most);
  }
});

test('a worker whose contexts are closed keeps no ring', async () => {
  const ground = simGround();
  const open = new Set<number>();
  let made = 0;
  const rings: Interceptor = {
    name: 'rings',
    wrap: (next) => ({
      createWrRing: (...args) => added(next.createWrRing(...args)),
      createWcRing: (...args) => added(next.createWcRing(...args)),
      destroyRing: (ring) => {
        next.destroyRing(ring);
        open.delete(ring);
      },
    }),
  };
  const added = (info: V.RingInfo) => {
    made++;
    open.add(info.handle);
    return info;
  };
  const provider = compose(ground.provider, [rings]);
  await runProgram(oneWrite(12_000), [workerDriver([perfSpec(256, 64)])], { ...ground, provider });
  // Three of the program's own: receives, sends, completions.
  expect(made).toBeGreaterThan(3);
  expect([...open]).toEqual([]);
});
