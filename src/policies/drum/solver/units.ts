/** The units inside the solvers: rates relative to a mean share, utilities relative to a mean weight. */
import { ProblemError } from '../../../verbs/errors.ts';
import { type DrumProblem, logBound } from './problem.ts';

/** Factors from the units of a problem to those of the iteration, and capacities in the latter. */
export interface Units {
  /** The rate that is 1 inside. */
  readonly rate: number;
  /** Weights are multiplied by this. */
  readonly weight: number;
  /** Inside, the weight of completions. */
  readonly beta: number;
  /** Per host: the bound on the sum of rates, or of their logarithms. */
  readonly requests: Float64Array;
  readonly completions: Float64Array;
}

/**
 * @param polled per host: the applications whose completions it polls
 * @throws ProblemError when beta and the weights cannot be compared in numbers
 */
export function unitsOf(problem: DrumProblem, polled: ArrayLike<number>): Units {
  const { hosts, start, alpha, capacity, weights, requestRate, completionRate } = problem;
  let [shares, count] = [0, 0];
  for (let i = 0; i < hosts; i++) {
    const members = start[i + 1] - start[i];
    if (members === 0) continue;
    shares += requestRate[i] / members;
    count++;
  }
  const rate = count === 0 ? 1 : shares / count;
  let sum = 0;
  for (const weight of weights) sum += weight;
  const weight = weights.length === 0 ? 1 : weights.length / sum;
  const beta = problem.beta * weight * rate ** (alpha - 3);
  if (!Number.isFinite(beta))
    throw new ProblemError(
      `invalid: with alpha ${alpha} and rates of about ${rate}, beta outweighs every weight; use a larger unit of rates`,
    );
  const bound = (value: number, members: number) =>
    capacity === 'linear' || members === 0 ? value / rate : logBound(value / rate, members);
  return {
    rate,
    weight,
    beta,
    requests: requestRate.map((value, i) => bound(value, start[i + 1] - start[i])),
    completions: completionRate.map((value, i) => bound(value, polled[i])),
  };
}
