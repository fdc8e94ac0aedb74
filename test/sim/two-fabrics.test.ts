// Fabrics in one process are independent.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createFabric } from '../../src/providers/sim/index.ts';
import { mixedProgram, runMixed } from '../conformance/mixed.ts';
import { simGround } from '../conformance/sim-ground.ts';

test('two concurrent programs on separate fabrics behave as when run alone', async () => {
  const programs = fc.sample(mixedProgram(), { numRuns: 20, seed: 20_261_121 });
  const run = (i: number) => runMixed(programs[i], [], simGround());
  for (let i = 0; i < programs.length; i += 2) {
    const alone = [structuredClone(await run(i)), structuredClone(await run(i + 1))];
    const together = await Promise.all([run(i), run(i + 1)]);
    expect(together).toEqual(alone);
  }
});

test('the time of a fabric advances after another one is created', async () => {
  const first = createFabric({ autoAdvance: false });
  createFabric({ autoAdvance: false });
  const slept = first.sleep(500).then(() => first.nowNs);
  await first.run();
  expect(await slept).toBe(500);
});
