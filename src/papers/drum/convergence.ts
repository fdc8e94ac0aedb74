/** How fast the solver of DRUM converges: what figures 4 to 6 plot. */
import { DualDecomposition } from '../../policies/drum/solver/dual-decomposition.ts';
import { Evaluator, type Utility } from '../../policies/drum/solver/evaluate.ts';
import type { Lost } from '../../policies/drum/solver/one-sided.ts';
import { OneSided } from '../../policies/drum/solver/one-sided.ts';
import type { DrumProblem } from '../../policies/drum/solver/problem.ts';
import { iterationOf } from '../../policies/drum/solver/solve.ts';
import { RandomStream } from '../../sim/kernel/random.ts';
import type { ComputationOptions, Values } from '../engine/values.ts';
import { networkOf } from './networks.ts';

/** The line that figures 4(a) and 5(a) draw. */
const ENOUGH = 0.995;
/** Iterations to the optimum; the tests compare such optima with other methods. */
const TO_OPTIMUM = { one: 150, two: 600 };

/** Loses messages, or results of a step, with a probability. The same call sequence loses the same ones. */
function lossOf(probability: number, seed: number): Lost | undefined {
  if (probability === 0) return undefined;
  const random = new RandomStream(seed, 'drum-loss');
  return () => random.next() < probability;
}

/** The utility of the optimum, and its rates. */
function optimumOf(problem: DrumProblem, evaluator: Evaluator): Utility {
  const iteration = iterationOf(problem);
  const most = problem.traffic === undefined ? TO_OPTIMUM.one : TO_OPTIMUM.two;
  for (let k = 0; k < most; k++) iteration.step();
  return evaluator.utility(evaluator.enforceable(iteration.rates(new Float64Array(problem.app.length))));
}

/**
 * Options: hosts, apps, alpha, sides (`one` or `two`), iterations, loss (a probability), method (`admm`, `dual` or `lyapunov`) and
 * step (of `dual`). Curves, from the first iteration on: `efficiency` of the rates that hosts would enforce, `objective`
 * relative to the optimum (meaningful except for alpha = 1), and the `primal` residual in Mops. `enough`: the first
 * iteration at 99.5 %.
 */
export function convergence(options: ComputationOptions, seed: number): Values {
  const { hosts, apps, alpha, iterations, sides, loss = 0, method = 'admm', step = 1e-3 } = options;
  const size = { hosts: Number(hosts), apps: Number(apps), alpha: Number(alpha) };
  const problem = networkOf({ ...size, isTwoSided: sides === 'two' }, seed);
  if (method === 'lyapunov') return { lyapunov: lyapunovOf(problem, Number(iterations)) };
  const evaluator = new Evaluator(problem);
  const optimum = optimumOf(problem, evaluator);
  const best = optimum.requests + optimum.completions;
  const rates = new Float64Array(problem.app.length);
  const [efficiency, objective, primal]: [number[], number[], number[]] = [[], [], []];
  const note = () => {
    const fitting = evaluator.enforceable(rates);
    efficiency.push(evaluator.efficiency(fitting, optimum));
    const { requests, completions } = evaluator.utility(fitting);
    objective.push(1 - Math.abs((requests + completions - best) / best));
  };
  if (method === 'dual') {
    const baseline = new DualDecomposition(problem, Number(step));
    for (let k = 0; k < Number(iterations); k++) {
      baseline.step();
      rates.set(baseline.x);
      note();
    }
  } else {
    const iteration = iterationOf(problem);
    const lost = lossOf(Number(loss), seed);
    for (let k = 0; k < Number(iterations); k++) {
      iteration.step(lost);
      iteration.rates(rates);
      note();
      primal.push(iteration.primal);
    }
  }
  return {
    efficiency,
    objective,
    primal,
    enough: efficiency.findIndex((one) => one >= ENOUGH) + 1 || Number.NaN,
  };
}

/**
 * V = sum (u - u*)^2 / rho + rho (z - z*)^2 of Algorithm 1, relative to the first one. The penalty of each row is that with
 * which the solver begins, because V is defined for penalties that do not change.
 */
function lyapunovOf(problem: DrumProblem, iterations: number): number[] {
  const target = new OneSided(problem, { renews: false });
  for (let k = 0; k < 4000; k++) target.step();
  const iteration = new OneSided(problem, { renews: false });
  const { rho } = target;
  const values: number[] = [];
  for (let k = 0; k < iterations; k++) {
    iteration.step();
    let value = 0;
    for (let v = 0; v < rho.length; v++)
      value += (iteration.u[v] - target.u[v]) ** 2 / rho[v] + rho[v] * (iteration.z[v] - target.z[v]) ** 2;
    values.push(value);
  }
  return values.map((value) => value / values[0]);
}
