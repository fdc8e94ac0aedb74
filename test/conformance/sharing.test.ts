/** Random programs see the same over shared queue pairs as over their own. */
// @module-tag wide
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { workerDriver } from '../../src/drivers/worker/front.ts';
import { createPolicy } from '../../src/policies/index.ts';
import { PROFILES } from '../../src/providers/sim/index.ts';
import type { Interceptor } from '../../src/shim/compose.ts';
import { smallCache } from './chains.ts';
import { negotiate } from './negotiate.ts';
import { mostlyOneSidedProgram, oneSidedProgram, type Program, runProgram } from './program.ts';
import { simGround } from './sim-ground.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 100);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_127);

/** Around and below a shim: counts the requests that reach the device, and those of them on the program's queue pairs. */
class Count {
  private own = new Set<number>();
  posted = 0;
  onOwn = 0;

  readonly above: Interceptor = {
    name: 'above',
    wrap: (next) => {
      this.own = new Set();
      return {
        createQp: (pd, attr) => {
          const info = next.createQp(pd, attr);
          this.own.add(info.handle);
          return info;
        },
      };
    },
  };

  readonly below: Interceptor = {
    name: 'below',
    wrap: (next) => ({
      postSend: (qp, ring, start, count) => {
        const n = next.postSend(qp, ring, start, count);
        this.posted += n;
        if (this.own.has(qp)) this.onOwn += n;
        return n;
      },
    }),
  };
}

async function compare(programs: fc.Arbitrary<Program>, options: object, least: number): Promise<void> {
  const count = new Count();
  await fc.assert(
    fc.asyncProperty(programs, async (p) => {
      const drum = createPolicy('drum', { connectionsPerQp: 4, ...options });
      const bare = await runProgram(p, [], simGround());
      const shared = await runProgram(
        p,
        [count.above, negotiate(), drum, count.below, smallCache],
        simGround(),
      );
      expect(shared).toEqual(bare);
    }),
    { numRuns: RUNS, seed: SEED },
  );
  console.info(`${count.onOwn} of ${count.posted} requests on the program's own queue pairs`);
  expect(count.onOwn).toBeLessThan((1 - least) * count.posted);
}

test(
  'random WRITEs, READs and atomics complete as on own queue pairs',
  () => compare(oneSidedProgram, {}, 0.5),
  300_000,
);

test(
  'random WRITEs, READs and atomics in short pieces complete as on own queue pairs',
  { tags: ['long'], timeout: 300_000 },
  () => compare(oneSidedProgram, { pieceBytes: 256, windowBytes: 1500 }, 0.3),
);

test(
  'random programs with SENDs complete as on own queue pairs',
  () => compare(mostlyOneSidedProgram, {}, 0.1),
  300_000,
);

test('with driver: worker, random WRITEs, READs and atomics complete as on own queue pairs', {
  timeout: 300_000,
}, async () => {
  const count = new Count();
  const profile = { ...PROFILES.minimal, qpcEntries: 1 };
  const worker = workerDriver([{ name: 'drum', options: { connectionsPerQp: 4 } }]);
  await fc.assert(
    fc.asyncProperty(oneSidedProgram, async (p) => {
      const bare = await runProgram(p, [], simGround(true, profile));
      const chain = [count.above, negotiate(), worker, count.below];
      expect(await runProgram(p, chain, simGround(true, profile))).toEqual(bare);
    }),
    { numRuns: Math.ceil(RUNS / 10), seed: SEED },
  );
  expect(count.onOwn).toBeLessThan(0.5 * count.posted);
});
