/** A scheduler changes the times of events, never the results: the conformance suite and random programs under palos. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createFabric, PROFILES } from '../../../src/providers/sim/index.ts';
import { cases } from '../../conformance/cases/index.ts';
import { chains } from '../../conformance/chains.ts';
import { mixedProgram, runMixed } from '../../conformance/mixed.ts';
import { simGround } from '../../conformance/sim-ground.ts';
import { compact } from '../../conformance/suite/case.ts';
import { play } from '../../conformance/suite/run.ts';
import type { Trace } from '../../conformance/suite/scene.ts';
import { eachShort } from '../../support/variants.ts';
import type { Ground } from '../../verbs/ground.ts';

const RUNS = Math.ceil(Number(process.env.ISOVERBS_RUNS ?? 60) / 6);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_125);

const palos = (profile: string) => ({ ...PROFILES[profile], scheduler: 'palos' as const });

function groundOf(profile: string): Ground {
  const fabric = createFabric({ hosts: 2, seed: 1, autoAdvance: false, profile: palos(profile) });
  const turn = () => fabric.advance(50_000);
  return { name: 'sim', provider: fabric.provider, devices: ['sim0', 'sim1'], fabric, gidIndex: 1, turn };
}

describe('conformance suite', () => {
  for (const one of cases) {
    if (one.expect === undefined) continue;
    test(one.name, async () => {
      const { trace } = await play(one, groundOf('minimal'), [], null);
      expect(trace).toEqual(compact(one.expect as Trace));
    });
  }
});

describe.each(Object.keys(PROFILES))('a program over all verbs on %s', (profile) => {
  eachShort(1, ['arbitrary', 'perf 256'])(
    'sees no difference: %s',
    async (name) => {
      const { chain, wait } = chains[name];
      await fc.assert(
        fc.asyncProperty(mixedProgram(), async (p) => {
          const bare = await runMixed(p, [], simGround(wait, profile));
          const scheduled = await runMixed(p, [], simGround(wait, palos(profile)));
          expect(scheduled).toEqual(bare);
          expect(await runMixed(p, chain(), simGround(wait, palos(profile)))).toEqual(bare);
        }),
        { numRuns: RUNS, seed: SEED },
      );
    },
    300_000,
  );
});
