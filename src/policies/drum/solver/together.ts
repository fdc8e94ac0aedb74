/**
 * Newton's method for the steps of all variables of a host and its price together. A pass over the variables takes one
 * division for each. It has no bounds and can fail: `fill` then
 * falls back on bounded searches.
 */
import type { Steps } from './steps.ts';

/** The error after a step is about its square: below 1e-12 here, relative to each rate. */
const LAST_STEP = 1e-6;
const MOST_PASSES = 14;
/** The largest part of a rate that a step takes away. */
const MOST_LOSS = 0.9;

/** The largest alpha for which rates converge from afar; beyond, the steps are solved in logarithms. */
const MOST_ALPHA = 3;

/** x^alpha. */
function power(x: number, alpha: number): number {
  if (alpha === 1) return x;
  if (alpha === 3) return x * x * x;
  if (alpha === 2) return x * x;
  if (alpha === 0.5) return Math.sqrt(x);
  return x ** alpha;
}

/** Whether `fillTogether` applies: each variable has utility, which keeps its rate above 0. */
export const canFillTogether = (alpha: number, w: number): boolean => alpha <= MOST_ALPHA && w > 0;

/** The largest number of rates whose product is taken before its logarithm; rates are far from the limits of numbers. */
const FACTORS = 8;

/** Moves the rates by the Newton step at a change of the price. Returns the sum of squares of relative changes. */
function move({ x, drift, fall, length }: Steps, change: number): number {
  let square = 0;
  for (let j = 0; j < length; j++) {
    let step = drift[j] - fall[j] * change;
    if (step < -MOST_LOSS) step = -MOST_LOSS;
    x[j] += x[j] * step;
    square += step * step;
  }
  return square;
}

/**
 * The price from 0 at which the rates add up to the capacity, or 0 if they take less of it. Writes the rates into
 * `steps.x`. NaN: not found, and `steps.x` has other rates above 0.
 * @param lambda the price of the last iteration
 */
export function fillLinear(steps: Steps, alpha: number, capacity: number, lambda: number): number {
  const { w, a, b, x: rates, drift, fall, length } = steps;
  let price = lambda;
  for (let pass = 0; pass < MOST_PASSES; pass++) {
    let used = 0;
    let slope = 0;
    for (let j = 0; j < length; j++) {
      const x = rates[j];
      const p = power(x, alpha);
      const inverse = 1 / (a[j] * x * p + alpha * w[j]);
      const toRoot = (w[j] - (a[j] * x + b[j] + price) * p) * inverse;
      const perPrice = p * inverse;
      drift[j] = toRoot;
      fall[j] = perPrice;
      used += x + x * toRoot;
      slope += x * perPrice;
    }
    const next = Math.max(0, price + (used - capacity) / slope);
    const square = move(steps, next - price);
    price = next;
    if (square <= LAST_STEP * LAST_STEP) return price;
  }
  return Number.NaN;
}

/**
 * The same where the logarithms of the rates add up to the capacity, for rates on the right of the inflections of their
 * steps; see `logsumRoot`.
 */
export function fillLogsum(steps: Steps, alpha: number, capacity: number, lambda: number): number {
  const { w, a, b, x: rates, drift, fall, length } = steps;
  const bend = alpha * (alpha - 1);
  let price = lambda;
  for (let pass = 0; pass < MOST_PASSES; pass++) {
    let used = 0;
    let slope = 0;
    let product = 1;
    for (let j = 0; j < length; j++) {
      const x = rates[j];
      const p = power(x, alpha);
      const ax = a[j] * x;
      const rise = ((2 * ax + b[j]) * p + (alpha - 1) * w[j]) * x;
      if (!(rise > 0 && 2 * ax * p > bend * w[j])) return Number.NaN;
      const inverse = 1 / rise;
      const toRoot = ((w[j] - (ax + b[j]) * p) * x - price * p) * inverse;
      const perPrice = p * inverse;
      drift[j] = toRoot;
      fall[j] = perPrice;
      used += toRoot;
      slope += perPrice;
      product *= x;
      if (j % FACTORS === FACTORS - 1) {
        used += Math.log(product);
        product = 1;
      }
    }
    used += Math.log(product);
    const next = Math.max(0, price + (used - capacity) / slope);
    const square = move(steps, next - price);
    price = next;
    if (square <= LAST_STEP * LAST_STEP) return price;
  }
  return Number.NaN;
}
