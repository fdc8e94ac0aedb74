// Problems without a solution are rejected with the reason; solutions of others fit, whatever the numbers are.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Evaluator } from '../../../src/policies/drum/solver/evaluate.ts';
import type { DrumProblem } from '../../../src/policies/drum/solver/problem.ts';
import { rateRoot } from '../../../src/policies/drum/solver/roots.ts';
import { Selector } from '../../../src/policies/drum/solver/selectors.ts';
import { solve } from '../../../src/policies/drum/solver/solve.ts';
import { problemOf } from './problems.ts';

const GOOD = problemOf(1, { hosts: 2, apps: 3, capacity: 'linear', alpha: 1, beta: 1, destinations: 2 });
const ONE = { ...GOOD, traffic: undefined };

const withFirst = (column: Float64Array, value: number) => column.map((one, i) => (i === 0 ? value : one));

/** The application with the largest weight takes nearly everything. */
const OVERFLOWS: DrumProblem = {
  hosts: 1,
  start: Int32Array.of(0, 4),
  app: Int32Array.of(0, 1, 2, 3),
  alpha: 1,
  beta: 1e-3,
  capacity: 'logdomain',
  weights: Float64Array.of(1e-3, 0.46, 8e4, 2.6),
  completions: Float64Array.of(7e3, 2e-5, 250, 12),
  requestRate: Float64Array.of(6),
  completionRate: Float64Array.of(3e5),
};

const BAD: readonly [name: string, problem: DrumProblem, reason: RegExp][] = [
  ['a weight of 0', { ...GOOD, weights: withFirst(GOOD.weights, 0) }, /^invalid: weights\[0\] is 0/],
  [
    'a weight that is NaN',
    { ...GOOD, weights: withFirst(GOOD.weights, Number.NaN) },
    /^invalid: weights\[0\] is NaN/,
  ],
  ['a weight below 0', { ...GOOD, weights: withFirst(GOOD.weights, -1) }, /^invalid: weights/],
  ['too few weights', { ...GOOD, weights: new Float64Array(2) }, /^invalid: weights has 2 values; 6/],
  [
    'no capacity',
    { ...GOOD, requestRate: withFirst(GOOD.requestRate, 0) },
    /^infeasible: requestRate of host 0/,
  ],
  ['alpha of 0', { ...GOOD, alpha: 0 }, /^invalid: alpha is 0/],
  ['alpha that is NaN', { ...GOOD, alpha: Number.NaN }, /^invalid: alpha is NaN/],
  ['beta below 0', { ...GOOD, beta: -1 }, /^invalid: beta is -1/],
  ['alpha below 1 with logsum', { ...ONE, alpha: 0.5, capacity: 'logsum' }, /^unbounded: .* t and 1\/t/],
  ['alpha below 1 with logdomain', { ...ONE, alpha: 0.9, capacity: 'logdomain' }, /^unbounded/],
  [
    'alpha 1 and beta 0 with logsum',
    { ...ONE, beta: 0, capacity: 'logsum' },
    /^unbounded: .* largest weight/,
  ],
  ['logdomain with traffic', { ...GOOD, capacity: 'logdomain' }, /^not convex/],
  [
    'preemption with logsum',
    { ...ONE, capacity: 'logsum', preemption: { guaranteed: GOOD.weights, preemptible: GOOD.weights } },
    /^not convex: preemption/,
  ],
  [
    'a destination that does not exist',
    { ...GOOD, traffic: { ...GOOD.traffic!, host: GOOD.traffic!.host.map(() => 7) } },
    /^invalid: traffic names host 7/,
  ],
  ['an application twice', { ...GOOD, app: GOOD.app.map(() => 1) }, /^invalid: the application numbers/],
  [
    'beta beyond all weights',
    { ...ONE, alpha: 16, requestRate: Float64Array.of(1e40, 1e40) },
    /^invalid: with alpha 16/,
  ],
  ['rates that overflow', OVERFLOWS, /^diverged: .* orders of magnitude/],
];

test.each(BAD)('%s is rejected with the reason', (_name, problem, reason) => {
  expect(() => solve(problem)).toThrow(
    expect.objectContaining({ code: 'ISO_ERR_PROBLEM', message: expect.stringMatching(reason) }),
  );
});

test('an application sends to at most 8 hosts, unless mostDestinations allows more', () => {
  const many = problemOf(2, { hosts: 12, apps: 2, capacity: 'linear', alpha: 1, beta: 1, destinations: 12 });
  expect(() => solve(many)).toThrow(/sends to \d+ hosts; at most 8/);
  expect(solve(many, { mostDestinations: 12 }).rates).toHaveLength(24);
});

test('solutions fit their capacities', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 1e6 }),
      fc.constantFrom(0.5, 1, 2, 5),
      fc.constantFrom(0, 0.01, 1, 100),
      fc.integer({ min: 0, max: 2 }),
      (seed, alpha, beta, destinations) => {
        const problem = problemOf(seed, { hosts: 3, apps: 4, capacity: 'linear', alpha, beta, destinations });
        const { rates } = solve(problem, { tolerance: 1e-6, mostIterations: 300 });
        for (let i = 0; i < 3; i++) {
          const sum = rates.subarray(4 * i, 4 * i + 4).reduce((a, b) => a + b, 0);
          expect(sum).toBeLessThanOrEqual(problem.requestRate[i] * (1 + 1e-9));
        }
        const again = new Evaluator(problem).enforceable(rates);
        for (const [v, rate] of rates.entries()) {
          expect(rate).toBeGreaterThan(0);
          expect(Math.abs(again[v] / rate - 1)).toBeLessThan(1e-9);
        }
      },
    ),
    { numRuns: 60 },
  );
});

test('a rate equation whose root is at the edge of its domain has a finite root', () => {
  const x = rateRoot(5, 1e-30, 1, -2, 2);
  expect(Math.abs(x / 2 - 1)).toBeLessThan(1e-5);
});

test('rateRoot() solves the rate equation for any coefficients and guess', () => {
  const size = fc.double({ min: 1e-3, max: 1e3, noNaN: true });
  fc.assert(
    fc.property(
      fc.constantFrom(0.5, 0.7, 1, 2, 2.5, 3),
      size,
      size,
      size,
      fc.boolean(),
      size,
      (alpha, w, a, b, isBelow, guess) => {
        const c = isBelow ? -b : b;
        const x = rateRoot(alpha, w, a, c, guess);
        const terms = [a * x, c, -w * x ** -alpha];
        expect(Math.abs(terms[0] + terms[1] + terms[2])).toBeLessThan(
          1e-6 * Math.max(...terms.map(Math.abs)),
        );
      },
    ),
    { numRuns: 500 },
  );
});

const flat = (length: number) => new Float64Array(length).fill(1);

test('40 applications of equal weight share 20 places: each waits one epoch at a time', () => {
  const selector = new Selector('weight', 40, 20);
  for (let epoch = 0; epoch < 20; epoch++) {
    expect(selector.next({ weights: flat(40), arrivals: flat(40), remaining: flat(40) })).toHaveLength(20);
    expect(Math.max(...selector.waited)).toBeLessThanOrEqual(1);
  }
});

test('a selector serves by arrival or by size, and rotation ends every wait', () => {
  const weights = flat(6);
  const values = Float64Array.of(5, 4, 3, 2, 1, 0);
  for (const name of ['fifo', 'smallest'] as const) {
    const selector = new Selector(name, 6, 2, 2);
    expect([...selector.next({ weights, arrivals: values, remaining: values })]).toEqual([4, 5]);
    const served = new Set<number>();
    for (let epoch = 0; epoch < 4; epoch++)
      for (const j of selector.next({ weights, arrivals: values, remaining: values })) served.add(j);
    expect(served.size).toBe(6);
  }
  expect(() => new Selector('weight', 4, 0)).toThrow(/k is 0/);
});
