/** The penalty rho of the iteration. It has units: the paper's 10^-3 makes no progress for rates in Mops. */
import type { Capacity } from './problem.ts';
import { inversePower } from './roots.ts';

/** One penalty for each row of F(x) = z, or the same for all rows of a host. */
export type PenaltyRule = 'row' | 'median';

/**
 * Iterations before which the penalties are computed again, at the rates so far. They are few, because convergence is
 * guaranteed once the penalties no longer change.
 */
export const RENEWALS: readonly number[] = [3, 6, 12, 24, 48, 96, 192];
/** The largest factor by which a penalty changes at a time. */
export const MOST_CHANGE = 8;

/** The utilities of the variables of one host, in the units of the iteration. Reused for all hosts. */
export class Curves {
  readonly alpha: number;
  readonly beta: number;
  readonly capacity: Capacity;
  /** Number of variables. */
  length = 0;
  /** Per variable: the weight, completions per request, and an estimate of its rate of requests and of completions. */
  readonly weights: Float64Array;
  readonly ratios: Float64Array;
  readonly x: Float64Array;
  readonly z: Float64Array;
  /** Which capacities are expected to be used up. */
  requestsBind = false;
  completionsBind = false;
  /** Set by `computePenalties`. */
  readonly rho: Float64Array;
  /** Curvatures of both utilities as functions of z. */
  readonly requests: Float64Array;
  readonly completions: Float64Array;

  /** @param most the largest number of variables of a host */
  constructor(most: number, alpha: number, beta: number, capacity: Capacity) {
    this.alpha = alpha;
    this.beta = beta;
    this.capacity = capacity;
    const column = () => new Float64Array(most);
    [this.weights, this.ratios, this.x, this.z] = [column(), column(), column(), column()];
    [this.rho, this.requests, this.completions] = [column(), column(), column()];
  }
}

/**
 * Computes the penalty of each row of F(x) = z. With curvatures F and G of both utilities as functions of z, sqrt(F G) is
 * best where no capacity binds. Where one does, the common rate of all rows converges by a factor of G / (G + rho) for
 * requests and F / (F + rho) for completions, so that rho is at least G or F there: each step then halves every error.
 * With `logsum`, a step is convex near its solution only if rho exceeds price / z^2 less the curvature: rho is at least
 * twice that.
 */
export function computePenalties(curves: Curves, rule: PenaltyRule): void {
  const { capacity, length, z, rho, requests, completions, requestsBind, completionsBind } = curves;
  computeCurvatures(curves);
  if (rule === 'median') {
    requests.fill(median(requests, length), 0, length);
    completions.fill(median(completions, length), 0, length);
  }
  const price = capacity === 'logsum' ? meanGain(curves) : 0;
  let largest = 0;
  for (let j = 0; j < length; j++) {
    const [f, g] = [requests[j], completions[j]];
    let one = f > 0 && g > 0 ? Math.sqrt(f * g) : Math.max(f, g);
    if (requestsBind && g > one) one = g;
    if (completionsBind && f > one) one = f;
    const convex = (2 * price) / (z[j] * z[j]);
    if (convex > one) one = convex;
    if (one > largest) largest = one;
    rho[j] = one;
  }
  if (rule === 'median') rho.fill(capacity === 'logsum' ? largest : rho[0], 0, length);
}

function computeCurvatures(curves: Curves): void {
  const { alpha, beta, capacity, length, weights, ratios, x, z, requests, completions } = curves;
  const isLog = capacity === 'logdomain';
  for (let j = 0; j < length; j++) {
    const [rate, square, ratio] = [x[j], z[j] * z[j], ratios[j]];
    const gain = weights[j] * inversePower(rate, alpha);
    requests[j] = isLog ? (alpha - 1) * gain * rate : (alpha * gain) / (rate * ratio * ratio);
    completions[j] = isLog ? (4 * beta) / square : (6 * beta) / (square * square);
  }
}

/** The middle of the first values. */
function median(values: Float64Array, length: number): number {
  return length === 0 ? 0 : values.slice(0, length).sort()[length >> 1];
}

/** An estimate of the price of a host: the mean of w x^(1 - alpha) + 2 beta z^-2. */
function meanGain({ alpha, beta, length, weights, x, z }: Curves): number {
  let sum = 0;
  for (let j = 0; j < length; j++)
    sum += weights[j] * x[j] * inversePower(x[j], alpha) + (2 * beta) / (z[j] * z[j]);
  return sum / length;
}
