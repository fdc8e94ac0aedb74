/** Messages that wait for receives hold up nothing but their own connections. */
// @module-tag wide
import fc from 'fast-check';
import { expect } from 'vitest';
import { createPolicy } from '../../src/policies/index.ts';
import { eachShort } from '../support/variants.ts';
import { messagePrograms, runMessages } from './message-program.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 6);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_128);

eachShort(1, ['fair', 'drum', 'tassel', 'palos'] as const)(
  'random messages under %s',
  (policy) =>
    fc.assert(
      fc.asyncProperty(messagePrograms, async (p) => {
        expect(await runMessages(p, [createPolicy(policy)])).toEqual(await runMessages(p, []));
      }),
      { numRuns: RUNS, seed: SEED },
    ),
  120_000,
);
