/** The penalty rho of the iteration. It has units: the paper's 10^-3 makes no progress for rates in Mops. */
import type { Capacity } from './problem.ts';

/** One penalty for each row of F(x) = z, or the same for all rows of a host. */
export type PenaltyRule = 'row' | 'median';

/**
 * Iterations before which the penalties are computed again, at the rates so far. They are few, because convergence is
 * guaranteed once the penalties no longer change.
 */
export const RENEWALS: readonly number[] = [3, 6, 12, 24, 48, 96, 192];
/** The largest factor by which a penalty changes at a time. */
export const MOST_CHANGE = 8;

/** The middle of sorted values; 0 without any. */
function median(values: Float64Array): number {
  if (values.length === 0) return 0;
  return values.slice().sort()[values.length >> 1];
}

/** The utilities of the variables of a host, in the units of the iteration. */
export interface Curved {
  readonly alpha: number;
  readonly beta: number;
  readonly capacity: Capacity;
  /** Per variable: the weight, completions per request, and an estimate of its rate of requests and of completions. */
  readonly weights: Float64Array;
  readonly ratios: Float64Array;
  readonly x: Float64Array;
  readonly z: Float64Array;
  /** Which capacities are expected to be used up. */
  readonly requestsBind: boolean;
  readonly completionsBind: boolean;
}

/**
 * Writes the penalty of each row of F(x) = z. With curvatures F and G of both utilities as functions of z, sqrt(F G) is
 * best where no capacity binds. Where one does, the common rate of all rows converges by a factor of G / (G + rho) for
 * requests and F / (F + rho) for completions, so that rho is at least G or F there: each step then halves every error.
 * With `logsum`, a step is convex near its solution only if rho exceeds price / z^2 less the curvature: rho is at least
 * twice that.
 */
export function penalties(curved: Curved, rule: PenaltyRule, rho: Float64Array): void {
  const { alpha, beta, capacity, weights, ratios, x, z } = curved;
  const isLog = capacity === 'logdomain';
  const gains = weights.map((w, j) => w * x[j] ** (isLog ? 1 - alpha : -alpha));
  const requests = gains.map((gain, j) =>
    isLog ? (alpha - 1) * gain : (alpha * gain) / x[j] / ratios[j] ** 2,
  );
  const completions = z.map((rate) => (isLog ? 4 * beta * rate ** -2 : 6 * beta * rate ** -4));
  if (rule === 'median') {
    requests.fill(median(requests));
    completions.fill(median(completions));
  }
  const price = capacity === 'logsum' ? meanGain(curved) : 0;
  for (let j = 0; j < rho.length; j++) {
    const [f, g] = [requests[j], completions[j]];
    rho[j] = Math.max(
      f > 0 && g > 0 ? Math.sqrt(f * g) : Math.max(f, g),
      curved.requestsBind ? g : 0,
      curved.completionsBind ? f : 0,
      (2 * price) / (z[j] * z[j]),
    );
  }
  if (rule === 'median') rho.fill(capacity === 'logsum' ? largest(rho) : rho[0]);
}

/** An estimate of the price of a host: the mean of w x^(1 - alpha) + 2 beta z^-2. */
function meanGain({ alpha, beta, weights, x, z }: Curved): number {
  let sum = 0;
  for (let j = 0; j < x.length; j++) sum += weights[j] * x[j] ** (1 - alpha) + 2 * beta * z[j] ** -2;
  return sum / x.length;
}

function largest(values: Float64Array): number {
  let most = 0;
  for (const value of values) if (value > most) most = value;
  return most;
}
