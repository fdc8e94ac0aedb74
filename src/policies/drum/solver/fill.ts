/** Fits the rates of one host into its capacity: finds the price lambda at which the steps of all variables meet it. */
import { inversePower, logRoot, logsumRoot, rateRoot } from './roots.ts';
import type { Steps } from './steps.ts';
import { canFillTogether, fillLinear, fillLogsum } from './together.ts';

/** How close to its capacity a host is filled, relative to the capacity or, for logarithms, per variable. */
const CLOSE = 1e-11;
const MOST_PASSES = 100;

/** The smallest rate that a step returns with a capacity in logarithms. */
export const LEAST_RATE = 1e-12;

/** All steps at one price. Sets `used` and `slope`. */
type Pass = (steps: Steps, alpha: number, lambda: number) => void;

const linearPass: Pass = (steps, alpha, lambda) => {
  const { w, a, b, x, length } = steps;
  let [used, slope] = [0, 0];
  for (let j = 0; j < length; j++) {
    const root = rateRoot(alpha, w[j], a[j], b[j] + lambda, x[j] > 0 ? x[j] : 1);
    x[j] = root;
    used += root;
    if (root > 0) slope += root / (a[j] * root + alpha * w[j] * inversePower(root, alpha));
  }
  steps.used = used;
  steps.slope = slope;
};

const logsumPass: Pass = (steps, alpha, lambda) => {
  const { w, a, b, x, length } = steps;
  let [used, slope] = [0, 0];
  for (let j = 0; j < length; j++) {
    const root = logsumRoot(alpha, w[j], a[j], b[j], lambda, x[j] > 0 ? x[j] : 1, LEAST_RATE);
    x[j] = root;
    used += Math.log(root);
    const rise = (2 * a[j] * root + b[j] + (alpha - 1) * w[j] * inversePower(root, alpha)) * root;
    if (rise > 0) slope += 1 / rise;
  }
  steps.used = used;
  steps.slope = slope;
};

/** Here x has logarithms, and the exponent of the force is alpha - 1. */
const logdomainPass: Pass = (steps, alpha, lambda) => {
  const { w, a, b, x, length } = steps;
  const kappa = alpha - 1;
  let [used, slope] = [0, 0];
  for (let j = 0; j < length; j++) {
    const root = logRoot(kappa, w[j], a[j], b[j] + lambda, x[j]);
    x[j] = root;
    used += root;
    slope += 1 / (a[j] + (kappa === 0 ? 0 : kappa * w[j] * Math.exp(-kappa * root)));
  }
  steps.used = used;
  steps.slope = slope;
};

/** Which pass serves a capacity. */
export const PASSES = Object.freeze({ linear: linearPass, logsum: logsumPass, logdomain: logdomainPass });

/**
 * The price from 0 at which the variables take at most `capacity`; they take all of it if the price is above 0.
 * @param lambda the price of the last iteration
 */
export function fill(steps: Steps, pass: Pass, alpha: number, capacity: number, lambda: number): number {
  if (steps.length === 0) return 0;
  let price = lambda;
  if (pass !== logdomainPass && canFillTogether(alpha, steps.w[0])) {
    // Without a price, the equations of both capacities have the same roots.
    const isLinear = pass === linearPass || capacity === Number.POSITIVE_INFINITY;
    price = isLinear
      ? fillLinear(steps, alpha, capacity, lambda)
      : fillLogsum(steps, alpha, capacity, lambda);
    if (price >= 0) return price;
    price = lambda;
  }
  return search(steps, pass, alpha, capacity, price);
}

/**
 * The lowest price from 0 at which the variables take at most `capacity`; they take all of it if the price is above 0.
 * Newton's method between bounds, which is global for convex capacities; at a jump of `logsum`, the side that fits.
 * @param lambda the price of the last iteration
 */
function search(steps: Steps, pass: Pass, alpha: number, capacity: number, lambda: number): number {
  const close = CLOSE * (pass === linearPass ? capacity : steps.length);
  let [low, high] = [0, Number.POSITIVE_INFINITY];
  let price = lambda;
  for (let i = 0; i < MOST_PASSES; i++) {
    pass(steps, alpha, price);
    const excess = steps.used - capacity;
    if (Math.abs(excess) <= close || (price === 0 && excess <= 0)) return price;
    if (excess > 0) low = price;
    else high = price;
    if (high < Number.POSITIVE_INFINITY && high - low <= 1e-15 * high) break;
    const next = price + excess / steps.slope;
    if (next > low && next < high) price = next;
    else if (next <= 0 && low === 0) price = 0;
    else price = high === Number.POSITIVE_INFINITY ? 2 * low + steps.a[0] : (low + high) / 2;
  }
  if (steps.used > capacity + close) pass(steps, alpha, high);
  return high === Number.POSITIVE_INFINITY ? price : high;
}
