/** What the processes of the benchmark measure: iterations of the solver of DRUM, and decisions for one host. */
import { networkOf } from '#src/papers/drum/networks.ts';
import { DualDecomposition } from '#src/policies/drum/solver/dual-decomposition.ts';
import { OneSided } from '#src/policies/drum/solver/one-sided.ts';
import type { Capacity, DrumProblem } from '#src/policies/drum/solver/problem.ts';
import { solve } from '#src/policies/drum/solver/solve.ts';
import type { Groups, Work } from '../conditions-in-turn.ts';

/** The size of figure 4(a). */
const SIZE = { hosts: 100, apps: 50, isTwoSided: false };
const SEED = 1;
/** Iterations of figure 4(a) to 99.5 % of the optimum. After these, the iteration begins anew. */
const ITERATIONS = 20;
/** Steps of the dual decomposition are of constant length, and their length does not change what they take. */
const DUAL_STEP = 1e-3;
/** Connections of one host in a decision, and its tolerance: far less than rates are enforced with. */
const CONNECTIONS = 250;
const TOLERANCE = 1e-3;

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

function dual(alpha: number): Work {
  const problem = problemOf(alpha, 'linear');
  return iterations(problem, () => new DualDecomposition(problem, DUAL_STEP));
}

/** One host with as many applications as connections. A unit is one of its applications. */
function decision(alpha: number): Work {
  const weights = Float64Array.from({ length: CONNECTIONS }, (_, j) => 1 + ((j * 7919) % 4));
  const problem: DrumProblem = {
    ...{ hosts: 1, alpha, beta: 0, capacity: 'linear', weights },
    start: Int32Array.of(0, CONNECTIONS),
    app: Int32Array.from(weights, (_, j) => j),
    completions: new Float64Array(CONNECTIONS).fill(1),
    requestRate: Float64Array.of(111),
    completionRate: Float64Array.of(111),
  };
  return (units) => {
    for (let done = 0; done < units; done += CONNECTIONS) solve(problem, { tolerance: TOLERANCE });
  };
}

/** What is compared. */
export const GROUPS: Groups = {
  'linear, a variable and iteration': {
    'dual decomposition': () => dual(1),
    'alpha 1/2': () => admm(0.5, 'linear'),
    'alpha 1': () => admm(1, 'linear'),
    'alpha 2': () => admm(2, 'linear'),
  },
  'logsum, a variable and iteration': {
    'dual decomposition': () => dual(1),
    'alpha 1': () => admm(1, 'logsum'),
    'alpha 2': () => admm(2, 'logsum'),
  },
  'a decision for 250 connections, a connection': {
    'dual decomposition': () => dual(1),
    'alpha 1': () => decision(1),
    'alpha 2': () => decision(2),
  },
};
