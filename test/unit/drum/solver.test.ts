// The solvers reach the optima that independent methods find. A failure prints the seed.
// @module-tag wide
import { expect, test } from 'vitest';
import { networkOf } from '../../../src/papers/drum/networks.ts';
import { Evaluator } from '../../../src/policies/drum/solver/evaluate.ts';
import { OneSided } from '../../../src/policies/drum/solver/one-sided.ts';
import type { DrumProblem } from '../../../src/policies/drum/solver/problem.ts';
import { solve } from '../../../src/policies/drum/solver/solve.ts';
import { TwoSided } from '../../../src/policies/drum/solver/two-sided.ts';
import { RandomStream } from '../../../src/sim/kernel/random.ts';
import { interiorOptimum } from './interior-point.ts';
import { optimumOf } from './oracle.ts';
import { problemOf } from './problems.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 60);
const SEED = Number(process.env.ISOVERBS_SEED ?? 1);
const SEEDS = Array.from({ length: RUNS }, (_, i) => SEED + i);
const BETAS = [0.1, 1, 10];

const farthest = (rates: ArrayLike<number>, optimum: ArrayLike<number>) =>
  Array.from(rates).reduce((worst, rate, v) => Math.max(worst, Math.abs(rate / optimum[v] - 1)), 0);

const ALPHAS = { linear: [0.5, 1, 2, 4, 8], logsum: [2, 3, 4, 8], logdomain: [1, 2, 4, 8] } as const;

/** With alpha = 1, the product of rates is worth the same for all splits of equal weights. */
function oneSided(seed: number, capacity: keyof typeof ALPHAS): DrumProblem {
  const alpha = ALPHAS[capacity][seed % ALPHAS[capacity].length];
  const shape = { hosts: 2, apps: 2 + (seed % 9), capacity, alpha, beta: BETAS[seed % 3], destinations: 0 };
  const problem = problemOf(seed, shape);
  return alpha === 1 && capacity !== 'linear'
    ? { ...problem, weights: problem.weights.map(() => 1) }
    : problem;
}

test.each(['linear', 'logsum', 'logdomain'] as const)(
  'Algorithm 1 finds the optimum of bisection within 1e-6, %s',
  (capacity) => {
    for (const seed of SEEDS) {
      const problem = oneSided(seed, capacity);
      const { rates, iterations } = solve(problem, { tolerance: 1e-10, mostIterations: 3000 });
      const far = farthest(rates, optimumOf(problem));
      expect(far, `seed ${seed}, alpha ${problem.alpha}, ${iterations} iterations`).toBeLessThan(1e-6);
    }
  },
  600_000,
);

test('Algorithm 2 finds the optimum of an interior-point method within 1e-6', () => {
  for (const seed of SEEDS) {
    const alpha = [0.5, 1, 2][seed % 3];
    const shape = {
      hosts: 4,
      apps: 3,
      capacity: 'linear',
      alpha,
      beta: BETAS[seed % 3],
      destinations: 3,
    } as const;
    const problem = problemOf(seed, shape);
    const { rates } = solve(problem, { tolerance: 1e-11, mostIterations: 5000 });
    expect(farthest(rates, interiorOptimum(problem)), `seed ${seed}, alpha ${alpha}`).toBeLessThan(1e-6);
  }
}, 600_000);

test('Algorithm 2 converges where many rows have few requests, and with a tenth of the messages lost', () => {
  for (const alpha of [0.5, 1, 2]) {
    const problem = networkOf({ hosts: 50, apps: 500, alpha, isTwoSided: true }, SEED);
    const random = new RandomStream(SEED, 'lost');
    const [all, some] = [new TwoSided(problem), new TwoSided(problem)];
    for (let k = 0; k < 200; k++) {
      all.step();
      some.step(() => random.next() < 0.1);
    }
    expect(all.primal + all.dual, `seed ${SEED}, alpha ${alpha}`).toBeLessThan(1e-8);
    expect(some.primal + some.dual, `seed ${SEED}, alpha ${alpha}, with losses`).toBeLessThan(1e-3);
  }
});

test('Algorithm 2 begins near the optimum, so that a tenth of the messages lost costs little at first', () => {
  for (const seed of SEEDS.slice(0, 5)) {
    const problem = networkOf({ hosts: 100, apps: 50, alpha: 1, isTwoSided: true }, seed);
    const evaluator = new Evaluator(problem);
    const optimum = evaluator.utility(solve(problem, { trace: false, mostIterations: 200 }).rates);
    const random = new RandomStream(seed, 'lost');
    const [all, some] = [new TwoSided(problem), new TwoSided(problem)];
    const rates = new Float64Array(problem.app.length);
    const efficiencyOf = (iteration: TwoSided) =>
      evaluator.efficiency(evaluator.enforceable(iteration.rates(rates)), optimum);
    expect(efficiencyOf(all), `seed ${seed}, before the first iteration`).toBeGreaterThan(0.6);
    for (let k = 1; k <= 10; k++) {
      all.step();
      some.step(() => random.next() < 0.1);
      const loss = 1 - efficiencyOf(some) / efficiencyOf(all);
      expect(loss, `seed ${seed}, iteration ${k}`).toBeLessThan(0.015);
    }
  }
});

/** Rates, weights and completions per request that differ by three orders of magnitude. */
function wideOf(seed: number, shape: Parameters<typeof problemOf>[1]): DrumProblem {
  const problem = problemOf(seed, shape);
  const wide = (column: Float64Array) => column.map((value) => value ** 3);
  const { weights, completions, requestRate, traffic } = problem;
  return {
    ...problem,
    weights: wide(weights),
    completions: wide(completions),
    requestRate: requestRate.map((rate, host) => rate * 10 ** ((host % 3) - 1)),
    ...(traffic !== undefined && { traffic: { ...traffic, perRequest: wide(traffic.perRequest) } }),
  };
}

test.each(['linear', 'logdomain'] as const)(
  'Algorithm 1 reaches the optimum where rates differ by orders of magnitude, %s',
  (capacity) => {
    for (const seed of SEEDS.slice(0, 30)) {
      for (const beta of [0.001, 10]) {
        // In logarithms, alpha = 1 leaves the utility of requests without curvature.
        const alpha = capacity === 'logdomain' ? 1 + (seed % 2) : 2;
        const shape = { hosts: 2, apps: 2 + (seed % 9), capacity, alpha, beta, destinations: 0 };
        const problem = wideOf(seed, shape);
        const { utility, converged } = solve(problem, { trace: false });
        expect(converged, `seed ${seed}, beta ${beta}`).toBe(true);
        const { requests, completions } = new Evaluator(problem).utility(optimumOf(problem));
        const optimum = requests + completions;
        const lost = (optimum - utility) / Math.abs(optimum);
        expect(lost, `seed ${seed}, beta ${beta}: the part of the optimum that is lost`).toBeLessThan(1e-8);
      }
    }
  },
);

test('Algorithm 2 converges where rates differ by orders of magnitude', () => {
  for (const seed of SEEDS.slice(0, 30)) {
    const shape = { hosts: 4, apps: 5, capacity: 'linear', alpha: [0.5, 1, 2][seed % 3] } as const;
    const problem = wideOf(seed, { ...shape, beta: [0.001, 10][seed % 2], destinations: 3 });
    expect(solve(problem, { trace: false }).converged, `seed ${seed}`).toBe(true);
  }
});

/** One host whose completion rate alone binds, and no utility of completions: w x^-alpha / a is the same for all. */
function boundByCompletions(
  alpha: number,
  weights: number[],
  completions: number[],
  rates: [number, number],
) {
  const { length } = weights;
  const problem: DrumProblem = {
    hosts: 1,
    start: Int32Array.of(0, length),
    app: Int32Array.from({ length }, (_, j) => j),
    alpha,
    beta: 0,
    capacity: 'linear',
    weights: Float64Array.from(weights),
    completions: Float64Array.from(completions),
    requestRate: Float64Array.of(rates[0]),
    completionRate: Float64Array.of(rates[1]),
  };
  const shares = weights.map((w, j) => (w / completions[j]) ** (1 / alpha));
  const polled = shares.reduce((sum, share, j) => sum + completions[j] * share, 0);
  return { problem, optimum: shares.map((share) => (share * rates[1]) / polled) };
}

test('with a large alpha, rates are optimal even if completions per request differ much', () => {
  for (const alpha of [4, 8, 16]) {
    const { problem, optimum } = boundByCompletions(alpha, [1, 2], [0.6, 3], [16, 1.5]);
    const { rates, converged } = solve(problem);
    expect(converged, `alpha ${alpha}`).toBe(true);
    expect(farthest(rates, optimum), `alpha ${alpha}`).toBeLessThan(1e-6);
  }
});

test('rates are optimal, too, where a host can issue many times as many requests as it can poll', () => {
  for (const alpha of [0.5, 1, 2]) {
    const { problem, optimum } = boundByCompletions(alpha, [1, 4, 2], [1, 1, 1], [1e8, 1e3]);
    const { rates } = solve(problem, { tolerance: 1e-6 });
    expect(farthest(rates, optimum), `alpha ${alpha}`).toBeLessThan(1e-4);
  }
});

test('both algorithms respect the cone of preemption, and find its optimum', () => {
  for (const seed of SEEDS.slice(0, 10)) {
    const shape = { hosts: 2, apps: 4, capacity: 'linear', alpha: 1, beta: 1 } as const;
    const plain = problemOf(seed, { ...shape, destinations: seed % 2 });
    const preemption = {
      guaranteed: plain.weights.map((w) => 0.5 + w / 4),
      preemptible: plain.completions.map((a) => 2 * a),
    };
    const problem = { ...plain, completionRate: plain.completionRate.map((c) => 4 * c), preemption };
    const { rates } = solve(problem, { tolerance: 1e-10, mostIterations: 3000 });
    expect(farthest(rates, interiorOptimum(problem)), `seed ${seed}`).toBeLessThan(1e-6);
  }
});

test('a cone that guarantees everything is the plain capacity', () => {
  const problem = problemOf(5, { hosts: 2, apps: 6, capacity: 'linear', alpha: 2, beta: 1, destinations: 0 });
  const size = problem.app.length;
  const preemption = { guaranteed: new Float64Array(size).fill(1), preemptible: new Float64Array(size) };
  const options = { tolerance: 1e-11 };
  expect(
    farthest(solve({ ...problem, preemption }, options).rates, solve(problem, options).rates),
  ).toBeLessThan(1e-8);
});

test('Algorithm 2 without traffic to other hosts is Algorithm 1', () => {
  const problem = problemOf(3, { hosts: 3, apps: 6, capacity: 'linear', alpha: 1, beta: 1, destinations: 0 });
  const [one, two] = [new OneSided(problem), new TwoSided(problem)];
  for (let k = 0; k < 200; k++) {
    one.step();
    two.step();
  }
  const rates = () => new Float64Array(problem.app.length);
  expect(farthest(one.rates(rates()), two.rates(rates()))).toBeLessThan(1e-9);
});

test('Algorithm 2 with logsum stays within the products, and ends where both residuals are small', () => {
  const problem = problemOf(2, {
    hosts: 4,
    apps: 3,
    capacity: 'logsum',
    alpha: 2,
    beta: 0.1,
    destinations: 3,
  });
  const { rates, converged } = solve(problem, { tolerance: 1e-7, mostIterations: 4000 });
  expect(converged).toBe(true);
  const evaluator = new Evaluator(problem);
  expect(farthest(evaluator.enforceable(rates), rates)).toBeLessThan(1e-9);
});

test('the smallest rate approaches that of max-min as alpha grows', () => {
  const smallest = [0.5, 1, 2, 4, 8, 16].map((alpha) => {
    const problem = problemOf(4, { hosts: 1, apps: 8, capacity: 'linear', alpha, beta: 0, destinations: 0 });
    return Math.min(...solve({ ...problem, completionRate: Float64Array.of(1e3) }).rates);
  });
  expect(smallest).toEqual([...smallest].sort((a, b) => a - b));
  const { requestRate } = problemOf(4, {
    hosts: 1,
    apps: 8,
    capacity: 'linear',
    alpha: 1,
    beta: 0,
    destinations: 0,
  });
  expect(smallest[5]).toBeGreaterThan(0.95 * (requestRate[0] / 8));
});

test('lost values slow the iteration down, and do not change where it ends', () => {
  for (const destinations of [0, 3]) {
    const shape = { hosts: 6, apps: 5, capacity: 'linear', alpha: 1, beta: 1, destinations } as const;
    const problem = problemOf(9, shape);
    let calls = 0;
    const lost = () => ++calls % 10 === 0;
    const [all, some] = [solve(problem), solve(problem, { lost })];
    expect(calls).toBeGreaterThan(100);
    expect(farthest(some.rates, all.rates)).toBeLessThan(1e-5);
  }
});

test('the allocation does not depend on the unit of rates', () => {
  const problem = problemOf(7, { hosts: 2, apps: 5, capacity: 'linear', alpha: 2, beta: 1, destinations: 0 });
  const inKops = {
    ...problem,
    requestRate: problem.requestRate.map((q) => q * 1e3),
    completionRate: problem.completionRate.map((c) => c * 1e3),
    beta: problem.beta * 1e3,
  };
  const rates = solve(problem, { tolerance: 1e-11 }).rates.map((rate) => rate * 1e3);
  expect(farthest(solve(inKops, { tolerance: 1e-11 }).rates, rates)).toBeLessThan(1e-7);
});
