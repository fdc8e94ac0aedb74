/** The penalty rho of the iteration. It has units: the paper's 10^-3 makes no progress for rates in Mops. */
import type { Capacity } from './problem.ts';
import { inversePower } from './roots.ts';

/** One penalty for each row of F(x) = z, or the same for all rows of a host. */
export type PenaltyRule = 'row' | 'median';

/**
 * Iterations before which the penalties are computed again, at the rates so far. They are few, because convergence is
 * guaranteed once the penalties no longer change; the last ones are for problems whose rates differ by orders of magnitude.
 */
export const RENEWALS: readonly number[] = [3, 6, 12, 24, 48, 96, 192, 384, 768, 1536];
/** The largest factor by which a penalty changes at a time. */
export const MOST_CHANGE = 8;

/**
 * With rates in logarithms and alpha = 1, the utility of requests has a slope and no curvature. The penalty is at least this
 * part of the slope. Without it, rates overflow where completions count for little.
 */
export const LEAST_LOG_PENALTY = 0.03;

/** Curvatures of the utilities of one host's rows F(x) = z, as functions of z. Reused for all hosts. */
export class Curves {
  /** Number of rows. */
  length = 0;
  /** Per row: of the utility of requests. */
  readonly requests: Float64Array;
  /** The same with what the other rows of the same requests add, for two-sided verbs. */
  readonly held: Float64Array;
  /** Of the utility of completions, times the number of hosts that share the row. */
  readonly completions: Float64Array;
  /** The least penalty: with `logsum` twice an estimate of the price, divided by z^2; 0 with `linear`. */
  readonly least: Float64Array;
  /** Which capacities are expected to be used up. */
  requestsBind = false;
  completionsBind = false;
  /** Set by `computePenalties`. */
  readonly rho: Float64Array;

  /** @param most the largest number of rows of a host */
  constructor(most: number) {
    const column = () => new Float64Array(most);
    [this.requests, this.held, this.completions] = [column(), column(), column()];
    [this.least, this.rho] = [column(), column()];
  }
}

/**
 * Computes the penalty of each row. With curvatures F and G of both utilities as functions of z, sqrt(F G) is best where no
 * capacity binds. Where one does, the common rate of all rows converges by a factor of G / (G + rho) for requests and
 * F / (F + rho) for completions, so that rho is at least G or F there: each step then halves every error. In F, the other
 * rows of the same requests hold back as well.
 * With `logsum`, a step is convex near its solution only if rho exceeds price / z^2 less the curvature: rho is at least
 * twice that.
 */
export function computePenalties(curves: Curves, rule: PenaltyRule, capacity: Capacity): void {
  const { length, requests, held, completions, least, rho, requestsBind, completionsBind } = curves;
  if (rule === 'median') {
    for (const column of [requests, held, completions]) column.fill(median(column, length), 0, length);
  }
  let largest = 0;
  for (let j = 0; j < length; j++) {
    const [f, g] = [requests[j], completions[j]];
    let one = f > 0 && g > 0 ? Math.sqrt(f * g) : Math.max(f, g);
    if (requestsBind && g > one) one = g;
    if (completionsBind && held[j] > one) one = held[j];
    if (least[j] > one) one = least[j];
    if (one > largest) largest = one;
    rho[j] = one;
  }
  if (rule === 'median') rho.fill(capacity === 'linear' ? rho[0] : largest, 0, length);
}

/** The curvature of w x^(1 - alpha) / (1 - alpha) in x, or in log x. */
export function requestCurvature(w: number, x: number, alpha: number, isLog: boolean): number {
  const gain = w * inversePower(x, alpha);
  return isLog ? (alpha - 1) * gain * x : (alpha * gain) / x;
}

/** The curvature of beta z^-2 in z, or in log z. */
export function completionCurvature(beta: number, z: number, isLog: boolean): number {
  const square = z * z;
  return isLog ? (4 * beta) / square : (6 * beta) / (square * square);
}

/** The middle of the first values. */
function median(values: Float64Array, length: number): number {
  return length === 0 ? 0 : values.slice(0, length).sort()[length >> 1];
}
