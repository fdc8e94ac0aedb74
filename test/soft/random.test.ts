// The same random programs on simulated devices and on user-space RoCE ones: what an application sees agrees.
import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { mixedProgram, runMixed } from '../conformance/mixed.ts';
import type { Ground } from '../conformance/program.ts';
import { simGround } from '../conformance/sim-ground.ts';
import { groundOf } from '../verbs/ground.ts';
import { absent } from './rig.ts';

const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_121);
const RUNS = Number(process.env.ISOVERBS_RUNS ?? 200);
/** Programs of `npm test`. */
const FEW = 4;

/** A timeout of a millisecond: a program settles when all that a request can still do, until its last retry, is done. */
const TIMEOUT = 6;
const IDLE_POLLS = 15;

/** Time passes by itself. */
function softGround(): Ground {
  const { provider, devices, gidIndex, turn } = groundOf('soft');
  const rest = { strictQueues: true, idlePolls: IDLE_POLLS, patientPolls: 0, timeout: TIMEOUT };
  return { provider, devices, gidIndex, ...rest, run: turn, advance: () => delay(0) };
}

const property = fc.asyncProperty(mixedProgram(), async (p) => {
  const simulated = await runMixed(p, [], simGround());
  expect(await runMixed(p, [], softGround())).toEqual(simulated);
});

describe.skipIf(absent !== null)('user-space RoCE and simulated devices look the same', () => {
  const check = (numRuns: number, seed: number) => fc.assert(property, { numRuns, seed, endOnFailure: true });

  test(`${FEW} programs over all verbs`, { timeout: 60_000 }, () => check(FEW, SEED));

  test(`${RUNS} programs over all verbs`, { tags: ['long'], timeout: 600_000 }, () => check(RUNS, SEED + 1));
});
