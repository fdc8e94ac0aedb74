// Computations of claims: cached by their content, evaluated like runs, and failures are lines that fail.
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Outcomes } from '../../src/mix/outcomes.ts';
import { RunCache } from '../../src/mix/run-cache.ts';
import type { Claim } from '../../src/papers/engine/claim.ts';
import type { Computation } from '../../src/papers/engine/computation.ts';
import { computationJob, runComputations } from '../../src/papers/engine/computation-jobs.ts';
import { claimComputations, evaluate } from '../../src/papers/engine/evaluate-claim.ts';
import { atMost } from '../../src/papers/engine/expect.ts';
import { at, number, type Values } from '../../src/papers/engine/values.ts';

const SMALL: Computation = {
  name: 'convergence',
  options: { hosts: 4, apps: 20, alpha: 1, sides: 'one', iterations: 20 },
};
const BAD: Computation = { ...SMALL, options: { ...SMALL.options, alpha: -1 } };

const claimOf = (computation: Computation): Claim => ({
  id: 'c',
  system: 'drum',
  part: 1,
  title: '',
  source: '',
  shows: [],
  mixes: {},
  computations: { run: computation },
  checks: [
    {
      what: 'iterations',
      unit: '',
      measure: (_runs, computed) => number(computed.run, 'enough'),
      expect: atMost(20),
    },
  ],
});

test('a claim measures what its computation returns, and a failed computation fails its lines', async () => {
  const claims = [claimOf(SMALL), claimOf(BAD)];
  const outcomes = await runComputations(claimComputations(claims, [1, 2]), { threads: 1 });
  expect(outcomes.size).toBe(4);
  const [good, bad] = claims.map((claim) => evaluate(claim, [1, 2], new Outcomes(), outcomes)[0]);
  expect(good.verdict).toBe('holds');
  expect(good.measured).toBeGreaterThan(1);
  expect(bad).toMatchObject({ verdict: 'fails', problem: expect.stringContaining('alpha is -1') });
  expect(evaluate(claims[0], [1], new Outcomes())[0].problem).toContain('was not computed');
});

test('a computation that is cached does not run again', async () => {
  const cache = new RunCache<Values>(mkdtempSync(join(tmpdir(), 'isoverbs-computed-')), 'build');
  const job = computationJob(SMALL, 1);
  cache.put(job, { enough: 3, efficiency: [0.5, 1] });
  const outcomes = await runComputations([job, job], { threads: 1, cache });
  const outcome = outcomes.get(job);
  if (outcome === undefined || !('result' in outcome)) throw new Error('no result');
  expect(number(outcome.result, 'enough')).toBe(3);
  expect(at(outcome.result, 'efficiency', 1)).toBe(1);
  expect(at(outcome.result, 'efficiency', 2)).toBeNaN();
});

test('the key of a computation does not depend on the order of its options', () => {
  const reversed = Object.fromEntries(Object.entries(SMALL.options).reverse());
  expect(computationJob({ ...SMALL, options: reversed }, 1).key).toBe(computationJob(SMALL, 1).key);
  expect(computationJob(SMALL, 2).key).not.toBe(computationJob(SMALL, 1).key);
});
