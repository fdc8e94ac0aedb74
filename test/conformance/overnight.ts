/**
 * `npm run test:overnight`: runs the random programs of the differential properties until stopped, or for
 * ISOVERBS_MINUTES. It prints its seed (or takes ISOVERBS_SEED) and the number of programs, and stops at the first
 * difference, which it shrinks.
 */
import { expect, test } from 'vitest';
import { chainNames, check, type Kind, kinds } from './differential.ts';

const SEED = Number(process.env.ISOVERBS_SEED ?? Date.now() % 2 ** 31);
const UNTIL = Date.now() + Number(process.env.ISOVERBS_MINUTES ?? Number.POSITIVE_INFINITY) * 60_000;
const RUNS = 100;

/** Each kind of program has a separate process, which runs this file once. */
const kind = (process.env.ISOVERBS_KIND ?? 'reliable') as Kind;

test(`random ${kind} programs until stopped, seed ${SEED}`, async () => {
  expect(Object.keys(kinds)).toContain(kind);
  console.info(`${kind}: seed ${SEED}`);
  let programs = 0;
  for (let round = 0; Date.now() < UNTIL; round++) {
    for (const chain of chainNames) {
      await check(kind, chain, RUNS, (SEED + round) | 0);
      programs += RUNS;
    }
    console.info(`${kind}: ${programs} programs, seed ${SEED}, round ${round}`);
  }
  expect(programs).toBeGreaterThan(0);
});
