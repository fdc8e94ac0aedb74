// Optima of one-sided problems, by bisection of the multipliers of each host. Shares no code with the solvers.
import type { DrumProblem } from '../../../src/policies/drum/solver/problem.ts';

/** The value where a falling function is 0, by bisection of the logarithm. */
function zeroOf(falling: (at: number) => number, least = 1e-12, most = 1e12): number {
  let [low, high] = [Math.log(least), Math.log(most)];
  for (let i = 0; i < 66; i++) {
    const middle = (low + high) / 2;
    if (falling(Math.exp(middle)) > 0) low = middle;
    else high = middle;
  }
  return Math.exp((low + high) / 2);
}

interface Host {
  w: number[];
  a: number[];
  q: number;
  c: number;
}

/** The marginal utility of x, completions included: w x^-alpha + 2 beta a^-2 x^-3. */
const marginal = (alpha: number, beta: number, w: number, a: number, x: number) =>
  w * x ** -alpha + (2 * beta) / (a * a * x ** 3);

/** Both capacities may bind: x falls with either multiplier, the sums too. */
function linearOptimum({ w, a, q, c }: Host, alpha: number, beta: number): number[] {
  const at = (l1: number, l2: number) =>
    w.map((weight, j) => zeroOf((x) => marginal(alpha, beta, weight, a[j], x) - l1 - l2 * a[j], 1e-9, 1e9));
  const requests = (x: number[]) => x.reduce((sum, one) => sum + one, 0);
  const completions = (x: number[]) => x.reduce((sum, one, j) => sum + a[j] * one, 0);
  const onlyFirst = at(
    zeroOf((l1) => requests(at(l1, 0)) - q, 1e-14, 1e14),
    0,
  );
  if (completions(onlyFirst) <= c * (1 + 1e-12)) return onlyFirst;
  const onlySecond = at(
    0,
    zeroOf((l2) => completions(at(0, l2)) - c, 1e-14, 1e14),
  );
  if (requests(onlySecond) <= q * (1 + 1e-12)) return onlySecond;
  // The first multiplier for each second one.
  const first = (l2: number) => zeroOf((l1) => requests(at(l1, l2)) - q, 1e-14, 1e14);
  const second = zeroOf((l2) => completions(at(first(l2), l2)) - c, 1e-14, 1e14);
  return at(first(second), second);
}

/** In logarithms one multiplier remains: w x^(1 - alpha) + 2 beta (a x)^-2 = mu for all. */
function logOptimum({ w, a, q, c }: Host, alpha: number, beta: number): number[] {
  const n = w.length;
  const logs = a.reduce((sum, one) => sum + Math.log(one), 0);
  const bound = Math.min(n * Math.log(q / n), n * Math.log(c / n) - logs);
  // With alpha = 1, mu exceeds the largest weight: it is counted from there, because little may be left.
  const base = alpha === 1 ? Math.max(...w) : 0;
  const gain = (weight: number, x: number) => (alpha === 1 ? weight - base : weight * x ** (1 - alpha));
  const at = (mu: number) =>
    w.map((weight, j) => zeroOf((x) => gain(weight, x) + (2 * beta) / (a[j] * x) ** 2 - mu, 1e-9, 1e9));
  const sumOf = (x: number[]) => x.reduce((sum, one) => sum + Math.log(one), 0);
  return at(zeroOf((mu) => sumOf(at(mu)) - bound, 1e-14, 1e14));
}

/** The optimal rate of every variable. Slow: a few hundred bisections per variable. */
export function optimumOf(problem: DrumProblem): Float64Array {
  const { hosts, start, alpha, beta, capacity, weights, completions, requestRate, completionRate } = problem;
  const x = new Float64Array(weights.length);
  for (let i = 0; i < hosts; i++) {
    const [from, to] = [start[i], start[i + 1]];
    const host = {
      w: [...weights.subarray(from, to)],
      a: [...completions.subarray(from, to)],
      q: requestRate[i],
      c: completionRate[i],
    };
    x.set(capacity === 'linear' ? linearOptimum(host, alpha, beta) : logOptimum(host, alpha, beta), from);
  }
  return x;
}
