/**
 * The scalar equations of the x-steps and z-steps. Each step minimises
 *
 *   -w x^(1 - alpha) / (1 - alpha) + a x^2 / 2 + b x + lambda c(x)        with a > 0, w >= 0
 *
 * for c(x) = x (`rateRoot`, lambda is part of b), for c(x) = log x (`logsumRoot`), or over y = log x (`logRoot`). The
 * z-step has alpha = 3 and w = 2 beta.
 */

/** Newton's method converges quadratically: after a step of this relative size, the error is below 1e-14. */
const LAST_STEP = 3e-8;
const MOST_STEPS = 200;
/** The largest step of a logarithm. */
const MOST_LOG_STEP = 5;

/** x^-alpha. */
export function inversePower(x: number, alpha: number): number {
  if (alpha === 1) return 1 / x;
  if (alpha === 2) return 1 / (x * x);
  if (alpha === 3) return 1 / (x * x * x);
  if (alpha === 0.5) return 1 / Math.sqrt(x);
  return x ** -alpha;
}

/**
 * The only root above 0 of a x + b = w x^-alpha; with w = 0, the larger of 0 and -b/a. Never fails: the difference is
 * convex and falls, so that every Newton step but one ends on the left of the root and moves right.
 * @param guess above 0; the closer, the faster
 */
export function rateRoot(alpha: number, w: number, a: number, b: number, guess: number): number {
  if (w === 0) return b >= 0 ? 0 : -b / a;
  if (alpha === 1) {
    const root = Math.sqrt(b * b + 4 * a * w);
    return b > 0 ? (2 * w) / (b + root) : (root - b) / (2 * a);
  }
  if (alpha > 3) return Math.exp(logRateRoot(alpha, w, a, b, Math.log(guess)));
  let x = guess;
  for (let i = 0; i < MOST_STEPS; i++) {
    const force = w * inversePower(x, alpha);
    const step = ((force - a * x - b) * x) / (alpha * force + a * x);
    if (step <= -x) {
      x *= 0.1;
      continue;
    }
    x += step;
    if (Math.abs(step) <= LAST_STEP * x) break;
  }
  return x;
}

/**
 * The same in y = log x, for large alpha: alpha y + log(a e^y + b) - log w rises, and is nearly linear. For b < 0 it is
 * concave and begins at y = log(-b / a), else convex.
 */
function logRateRoot(alpha: number, w: number, a: number, b: number, guess: number): number {
  const target = Math.log(w);
  const least = b < 0 ? Math.log(-b / a) : Number.NEGATIVE_INFINITY;
  let [low, high] = [least, Number.POSITIVE_INFINITY];
  let y = guess > least ? guess : least + 1e-3;
  for (let i = 0; i < MOST_STEPS; i++) {
    const rate = a * Math.exp(y);
    const sum = rate + b;
    if (!(sum > 0)) {
      low = y;
      y = Number.isFinite(high) ? (low + high) / 2 : y + 1e-6;
      continue;
    }
    const value = alpha * y + Math.log(sum) - target;
    if (value > 0) high = y;
    else low = y;
    const step = -value / (alpha + rate / sum);
    // Right above `least`, where the slope is steep, steps are short even far from the root.
    if (Math.abs(step) <= LAST_STEP && Math.abs(step * value) <= LAST_STEP ** 2) return y + step;
    if (high - low <= 1e-15 * Math.abs(y)) break;
    const next = y + Math.max(-MOST_LOG_STEP, Math.min(step, MOST_LOG_STEP));
    y = next > low && next < high ? next : Number.isFinite(low + high) ? (low + high) / 2 : next;
  }
  return y;
}

/** The only root of rho y + c = w e^(-kappa y), the step in logarithms; with kappa = 0 it is (w - c) / rho. */
export function logRoot(kappa: number, w: number, rho: number, c: number, guess: number): number {
  if (kappa === 0 || w === 0) return (w - c) / rho;
  let y = guess;
  for (let i = 0; i < MOST_STEPS; i++) {
    const force = w * Math.exp(-kappa * y);
    const left = rho * y + c;
    // From the left of the root, Newton's method stays there, for the equation and for that of the logarithms of both
    // sides: the larger step is better.
    let step = (force - left) / (kappa * force + rho);
    if (left > 0 && force > left) step = Math.max(step, Math.log(force / left) / (kappa + rho / left));
    y += Math.max(-MOST_LOG_STEP, step);
    if (Math.abs(step) <= LAST_STEP) break;
  }
  return y;
}

/** x times the derivative of the function that `logsumRoot` minimises. */
const slopeAt = (alpha: number, w: number, a: number, b: number, lambda: number, x: number) =>
  (a * x + b - w * inversePower(x, alpha)) * x + lambda;

/**
 * The minimum of the step with lambda log x. Up to three points have slope 0: for alpha > 1, the slope rises, falls and
 * rises, with the inflection at (alpha (alpha - 1) w / 2a)^(1 / (alpha + 1)). Of two minima, the one with the higher rate
 * is taken, even if the other one is better: it varies continuously, and the iteration stalls where a rate jumps between
 * the two. For alpha = 1 the function has one minimum, or falls towards 0: `least` then.
 * @param least the smallest rate
 */
export function logsumRoot(
  alpha: number,
  w: number,
  a: number,
  b: number,
  lambda: number,
  guess: number,
  least: number,
): number {
  if (alpha === 1 || w === 0) return quadraticRoot(a, b, lambda - w, least);
  const bend = inflection(alpha, w, a);
  const high = highRoot(alpha, w, a, b, lambda, Math.max(guess, bend * (1 + 1e-9)), bend);
  return high > 0 ? high : Math.max(lowRoot(alpha, w, a, b, lambda, bend), least);
}

function inflection(alpha: number, w: number, a: number): number {
  if (alpha === 2) return Math.cbrt(w / a);
  if (alpha === 3) return Math.sqrt(Math.sqrt((3 * w) / a));
  return ((alpha * (alpha - 1) * w) / (2 * a)) ** (1 / (alpha + 1));
}

/** The larger root of a x^2 + b x + c, where the slope rises. */
function quadraticRoot(a: number, b: number, c: number, least: number): number {
  const square = b * b - 4 * a * c;
  if (square < 0) return least;
  const root = Math.sqrt(square);
  const x = b > 0 ? (-2 * c) / (b + root) : (root - b) / (2 * a);
  return x > least ? x : least;
}

/** The root on the right of the inflection, where the slope is convex; 0 if there is none. */
function highRoot(
  alpha: number,
  w: number,
  a: number,
  b: number,
  lambda: number,
  guess: number,
  bend: number,
): number {
  let x = guess;
  let isRight = false;
  for (let i = 0; i < MOST_STEPS; i++) {
    const force = w * inversePower(x, alpha);
    const slope = (a * x + b - force) * x + lambda;
    const rise = 2 * a * x + b + (alpha - 1) * force;
    if (rise <= 0 || x <= bend) {
      // From the right of a root, Newton's method does not pass it: there is none.
      if (isRight) return 0;
      isRight = true;
      x = Math.max(2 * bend, -b / a);
      continue;
    }
    const step = -slope / rise;
    x += step;
    if (Math.abs(step) <= LAST_STEP * x) break;
  }
  return x;
}

/** The root on the left of the inflection if there is none on its right, where the slope is concave; 0 if there is none. */
function lowRoot(alpha: number, w: number, a: number, b: number, lambda: number, bend: number): number {
  let [left, right] = [bend * 1e-12, bend];
  // Bisection to a point of positive slope: from the derivative while the slope is negative, which it is up to the root.
  for (let i = 0; i < 60; i++) {
    const x = Math.sqrt(left * right);
    const force = w * inversePower(x, alpha);
    if ((a * x + b - force) * x + lambda >= 0) right = x;
    else if (2 * a * x + b + (alpha - 1) * force > 0) left = x;
    else right = x;
  }
  return right < bend && slopeAt(alpha, w, a, b, lambda, right) > -1e-9 * (lambda + w) ? right : 0;
}
