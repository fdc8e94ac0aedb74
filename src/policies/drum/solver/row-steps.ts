/** The steps of Algorithm 2 (two-sided.ts) for the variables and the rows of one host, and the penalties of its rows. */
import type { Curves } from './penalty.ts';
import type { Steps } from './steps.ts';

/** Rows, by row. */
export interface RowColumns {
  /** Completions: as the host polls them, and as its senders cause them. */
  readonly z: Float64Array;
  readonly sum: Float64Array;
  /** The scaled dual. */
  readonly u: Float64Array;
  /** The penalty; 0: not computed yet. */
  readonly rho: Float64Array;
  /** The number of hosts that cause completions in the row. */
  readonly sharers: Float64Array;
}

/** Variables, by variable and by entry: entries of variable v are entryStart[v] to entryStart[v + 1]. */
export interface VariableColumns {
  readonly x: Float64Array;
  readonly weights: Float64Array;
  readonly entryStart: Int32Array;
  /** Completions per request. */
  readonly per: Float64Array;
  /** What the row of the entry asks for, and with which penalty. */
  readonly asked: Float64Array;
  readonly askedRho: Float64Array;
}

/** What row r asks of a sender that has sent p x. */
export function askOf({ z, sum, u, sharers }: RowColumns, r: number, sent: number): number {
  return sent - (sum[r] - z[r] + u[r]) / sharers[r];
}

/** Prepares the x-step of the variables of a host. @param unit the weight of 1 in the units of the iteration */
export function loadRequests(
  steps: Steps,
  { x, weights, entryStart, per, asked, askedRho }: VariableColumns,
  from: number,
  to: number,
  unit: number,
): void {
  for (let v = from; v < to; v++) {
    let [square, force] = [0, 0];
    for (let e = entryStart[v]; e < entryStart[v + 1]; e++) {
      const pull = askedRho[e] * per[e];
      square += pull * per[e];
      force += pull * asked[e];
    }
    const j = v - from;
    steps.w[j] = weights[v] * unit;
    steps.a[j] = square;
    steps.b[j] = -force;
    steps.x[j] = x[v];
  }
  steps.length = to - from;
}

/** Prepares the z-step of the rows of a host. */
export function loadCompletions(
  steps: Steps,
  { z, sum, u, rho, sharers }: RowColumns,
  from: number,
  to: number,
  beta: number,
): void {
  for (let r = from; r < to; r++) {
    const j = r - from;
    const curvature = rho[r] / sharers[r];
    steps.w[j] = 2 * beta;
    steps.a[j] = curvature;
    steps.b[j] = -curvature * (sum[r] + u[r]);
    steps.x[j] = z[r];
  }
  steps.length = to - from;
}

/** Takes over the result of the z-step. Returns the squared change of z. */
export function takeCompletions(steps: Steps, { z }: RowColumns, from: number, to: number): number {
  let change = 0;
  for (let r = from; r < to; r++) {
    const value = steps.x[r - from];
    change += (value - z[r]) ** 2;
    z[r] = value;
  }
  return change;
}

/** The U-step of the rows of a host. Returns the squared residual. */
export function stepDuals({ z, sum, u }: RowColumns, from: number, to: number): number {
  let residual = 0;
  for (let r = from; r < to; r++) {
    const off = sum[r] - z[r];
    u[r] += off;
    residual += off * off;
  }
  return residual;
}

/** The dual at which the z-step returns z: U counts it for all sharers, with the opposite sign of a one-sided u. */
export function dualAt({ z, rho, sharers }: RowColumns, r: number, beta: number): number {
  return (sharers[r] / rho[r]) * -2 * beta * z[r] ** -3;
}

/**
 * By how much the sum of a row gives way to a force of 1: what a sender adds to it.
 * @param square its completions per request, squared
 * @param own the curvature of its utility
 * @param others what the other rows of the same requests add to it, 0: the row is alone
 */
export function givesWay(square: number, own: number, others: number): number {
  return square / Math.max(own, own + others);
}

/** Takes over computed penalties. U is scaled by them. @param most the largest factor of a change */
export function takePenalties(
  { rho }: Curves,
  rows: RowColumns,
  from: number,
  to: number,
  most: number,
): void {
  for (let r = from; r < to; r++) {
    const was = rows.rho[r];
    const found = rho[r - from];
    const now = was === 0 ? found : Math.max(was / most, Math.min(found, was * most));
    if (was > 0) rows.u[r] *= was / now;
    rows.rho[r] = now;
  }
}
