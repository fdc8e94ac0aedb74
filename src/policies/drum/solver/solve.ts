/** Solves a problem: picks the algorithm, iterates until the residuals are small, and keeps a trace. */
import { ProblemError } from '../../../verbs/errors.ts';
import { Evaluator } from './evaluate.ts';
import { type Iteration, type IterationOptions, type Lost, OneSided } from './one-sided.ts';
import type { DrumProblem } from './problem.ts';
import { TwoSided } from './two-sided.ts';

/** When to stop, besides how to iterate. */
export interface SolveOptions extends IterationOptions {
  /** Residuals relative to the mean of what rates can be, per square root of variables; default 1e-9. */
  readonly tolerance?: number;
  /** Default 2000. */
  readonly mostIterations?: number;
  readonly lost?: Lost;
  /** Whether the solution has a trace, which takes about as long as the iteration; default true. */
  readonly trace?: boolean;
}

/** One iteration: the norms of both residuals, and the utility of the rates that hosts would enforce then. */
export interface TraceEntry {
  readonly primal: number;
  readonly dual: number;
  readonly utility: number;
}

/** An allocation, and how it came about. */
export interface Solution {
  /** Rates of requests, which fit all capacities. */
  readonly rates: Float64Array;
  readonly utility: number;
  readonly iterations: number;
  /** Whether the residuals are within the tolerance. */
  readonly converged: boolean;
  /** Empty without `trace`. */
  readonly trace: readonly TraceEntry[];
}

/** Algorithm 2 if requests cause completions on other hosts, else Algorithm 1. @throws ProblemError */
export function iterationOf(problem: DrumProblem, options: IterationOptions = {}): Iteration {
  return problem.traffic === undefined ? new OneSided(problem, options) : new TwoSided(problem, options);
}

/** @throws ProblemError for problems without a solution, and where rates overflow */
export function solve(problem: DrumProblem, options: SolveOptions = {}): Solution {
  const iteration = iterationOf(problem, options);
  return requireNumbers(run(iteration, options, () => iteration.step(options.lost)));
}

/** @throws ProblemError for a solution with rates or a utility that are not numbers */
export function requireNumbers(solution: Solution): Solution {
  if (solution.rates.every(Number.isFinite) && !Number.isNaN(solution.utility)) return solution;
  throw new ProblemError(
    "diverged: numbers overflowed; use capacity 'linear', or weights, rates and completions that differ by fewer orders of magnitude",
  );
}

/**
 * Iterates until the residuals are small.
 * @param step does one step of the iteration
 * @throws ProblemError for an invalid tolerance
 */
export function run(
  iteration: Iteration,
  options: SolveOptions,
  step: () => void,
  evaluator = new Evaluator(iteration.problem),
): Solution {
  const { tolerance = 1e-9, mostIterations = 2000 } = options;
  if (!(tolerance > 0)) throw new ProblemError(`invalid: tolerance is ${tolerance}; it must be above 0`);
  const { problem } = iteration;
  const { requestRate, completionRate } = problem;
  const rates = new Float64Array(problem.app.length);
  const all = requestRate.reduce((sum, rate, host) => sum + Math.min(rate, completionRate[host]), 0);
  const mean = all / Math.max(1, problem.app.length);
  const small = tolerance * Math.sqrt(problem.app.length) * (problem.capacity === 'logdomain' ? 1 : mean);
  const trace: TraceEntry[] | null = options.trace === false ? null : [];
  const utilityNow = () => {
    const { requests, completions } = evaluator.utility(evaluator.enforceable(iteration.rates(rates)));
    return requests + completions;
  };
  let converged = false;
  while (!converged && iteration.iteration < mostIterations) {
    step();
    trace?.push({ primal: iteration.primal, dual: iteration.dual, utility: utilityNow() });
    converged = iteration.primal <= small && iteration.dual <= small;
  }
  const utility = iteration.iteration === 0 ? 0 : utilityNow();
  rates.set(evaluator.enforceable(rates));
  return { rates, utility, iterations: iteration.iteration, converged, trace: trace ?? [] };
}
