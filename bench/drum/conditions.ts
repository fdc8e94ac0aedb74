/**
 * What the processes of the benchmark measure: iterations of the solver of DRUM, decisions for one host, and requests that
 * pass under the policy.
 */
import { networkOf } from '#src/papers/drum/networks.ts';
import { DualDecomposition, demand } from '#src/policies/drum/solver/dual-decomposition.ts';
import { OneSided } from '#src/policies/drum/solver/one-sided.ts';
import type { Capacity, DrumProblem } from '#src/policies/drum/solver/problem.ts';
import { solve } from '#src/policies/drum/solver/solve.ts';
import { createPolicy } from '#src/policies/index.ts';
import type { Groups, Work } from '../conditions-in-turn.ts';
import { PASSING, small } from '../small-messages.ts';

/** The size of figure 4(a). */
const SIZE = { hosts: 100, apps: 50, isTwoSided: false };
const SEED = 1;
/** Iterations of figure 4(a) to 99.5 % of the optimum. After these, the iteration begins anew. */
const ITERATIONS = 20;
/** Steps of the dual decomposition are of constant length, and their length does not change what they take. */
const DUAL_STEP = 1e-3;
/** Connections of one host in a decision. */
const CONNECTIONS = 250;
/** As the policy solves. */
const DECISION = { tolerance: 1e-6, mostIterations: 200, trace: false };

const problemOf = (alpha: number, capacity: Capacity): DrumProblem => ({
  ...networkOf({ ...SIZE, alpha }, SEED),
  capacity,
});

/** A unit is one variable in one iteration. */
function iterations(problem: DrumProblem, begin: () => { step(): void }): Work {
  const variables = problem.app.length;
  let one = begin();
  let k = 0;
  return (units) => {
    for (let done = 0; done < units; done += variables) {
      if (k++ === ITERATIONS) {
        one = begin();
        k = 1;
      }
      one.step();
    }
  };
}

function admm(alpha: number, capacity: Capacity): Work {
  const problem = problemOf(alpha, capacity);
  return iterations(problem, () => new OneSided(problem));
}

function dual(alpha: number, capacity: Capacity): Work {
  const problem = problemOf(alpha, capacity);
  return iterations(problem, () => new DualDecomposition(problem, DUAL_STEP));
}

/** One host with as many applications as connections, and rates in units of an equal share, as the policy has them. */
function decisionOf(alpha: number): DrumProblem {
  const weights = Float64Array.from({ length: CONNECTIONS }, (_, j) => 1 + ((j * 7919) % 4));
  return {
    ...{ hosts: 1, alpha, beta: 0, capacity: 'linear', weights },
    start: Int32Array.of(0, CONNECTIONS),
    app: Int32Array.from(weights, (_, j) => j),
    completions: new Float64Array(CONNECTIONS).fill(1),
    requestRate: Float64Array.of(CONNECTIONS),
    completionRate: Float64Array.of(CONNECTIONS),
  };
}

/** A unit is one of the connections. */
const decisions = (decide: () => void): Work => {
  return (units) => {
    for (let done = 0; done < units; done += CONNECTIONS) decide();
  };
};

function decision(alpha: number): Work {
  const problem = decisionOf(alpha);
  return decisions(() => solve(problem, DECISION));
}

/** The same rates by bisection of the price, which all connections of a host have in common. */
function bisection(alpha: number): Work {
  const { weights, requestRate } = decisionOf(alpha);
  const x = new Float64Array(CONNECTIONS);
  const sumAt = (price: number) => {
    let sum = 0;
    for (let j = 0; j < x.length; j++) {
      x[j] = demand(alpha, weights[j], 3, 0, price, x[j]);
      sum += x[j];
    }
    return sum;
  };
  return decisions(() => {
    x.fill(1);
    let [low, high] = [0, 1];
    while (sumAt(high) > requestRate[0]) high *= 2;
    while (high - low > DECISION.tolerance * high) {
      const middle = (low + high) / 2;
      if (sumAt(middle) > requestRate[0]) low = middle;
      else high = middle;
    }
  });
}

const drum = () => [createPolicy('drum', PASSING)];

/** What is compared. */
export const GROUPS: Groups = {
  'linear, a variable and iteration': {
    'dual decomposition': () => dual(1, 'linear'),
    'alpha 1/2': () => admm(0.5, 'linear'),
    'alpha 1': () => admm(1, 'linear'),
    'alpha 2': () => admm(2, 'linear'),
  },
  'logsum, a variable and iteration': {
    'dual decomposition': () => dual(2, 'logsum'),
    'alpha 1': () => admm(1, 'logsum'),
    'alpha 2': () => admm(2, 'logsum'),
  },
  'a decision for 250 connections, a connection': {
    'bisection of the price, alpha 1': () => bisection(1),
    'alpha 1/2': () => decision(0.5),
    'alpha 1': () => decision(1),
    'alpha 2': () => decision(2),
  },
  'a request, batch 1': { none: () => small([], 1), drum: () => small(drum(), 1) },
  'a request, batch 32': { none: () => small([], 32), drum: () => small(drum(), 32) },
};
