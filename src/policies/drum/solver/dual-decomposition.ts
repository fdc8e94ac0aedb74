/**
 * The baseline of the paper: prices of the capacities of each host, moved by a subgradient step of s / sqrt(k). For
 * one-sided verbs. Logarithms of requests and of completions have the same sum but for a constant, so that only the tighter
 * of both capacities has a price.
 */
import { ProblemError } from '../../../verbs/errors.ts';
import { type DrumProblem, logBound, requireProblem } from './problem.ts';
import { inversePower } from './roots.ts';

/** The step of the paper, for rates in Mops. */
export const PAPER_STEP = 1e-3;
const MOST_STEPS = 100;
const LEAST_PRICE = 1e-9;

/** Runs the baseline. @throws ProblemError from the constructor */
export class DualDecomposition {
  readonly x: Float64Array;
  iteration = 0;
  private readonly problem: DrumProblem;
  private readonly step0: number;
  private readonly requestPrice: Float64Array;
  private readonly completionPrice: Float64Array;
  /** Bounds on the sums of logarithms. */
  private readonly bounds: Float64Array;

  constructor(problem: DrumProblem, step = PAPER_STEP) {
    requireProblem(problem);
    if (problem.preemption !== undefined || problem.traffic !== undefined)
      throw new ProblemError('invalid: the baseline requires one-sided verbs without preemption');
    this.problem = problem;
    this.step0 = step;
    this.x = new Float64Array(problem.app.length).fill(1);
    this.requestPrice = new Float64Array(problem.hosts).fill(1);
    this.completionPrice = new Float64Array(problem.hosts).fill(1);
    this.bounds = new Float64Array(problem.hosts);
    if (problem.capacity !== 'linear') for (let i = 0; i < problem.hosts; i++) this.beginLog(i);
  }

  /** A price above all weights, because demand has no limit below them with alpha = 1. */
  private beginLog(i: number): void {
    const { start, weights, completions, requestRate, completionRate } = this.problem;
    const members = start[i + 1] - start[i];
    let [offset, largest] = [0, 0];
    for (let v = start[i]; v < start[i + 1]; v++) {
      offset += Math.log(completions[v]);
      largest = Math.max(largest, weights[v]);
    }
    this.bounds[i] = Math.min(
      logBound(requestRate[i], members),
      logBound(completionRate[i], members) - offset,
    );
    this.requestPrice[i] = 2 * largest;
  }

  step(): void {
    const size = this.step0 / Math.sqrt(++this.iteration);
    const isLinear = this.problem.capacity === 'linear';
    for (let i = 0; i < this.problem.hosts; i++) {
      if (isLinear) this.stepLinear(i, size);
      else this.stepLog(i, size);
    }
  }

  private stepLinear(i: number, size: number): void {
    const { start, alpha, beta, weights, completions, requestRate, completionRate } = this.problem;
    let [requests, polled] = [0, 0];
    for (let v = start[i]; v < start[i + 1]; v++) {
      const a = completions[v];
      const price = this.requestPrice[i] + this.completionPrice[i] * a;
      const x = demand(alpha, weights[v], 3, (2 * beta) / (a * a), price, this.x[v]);
      this.x[v] = x;
      requests += x;
      polled += a * x;
    }
    this.requestPrice[i] = Math.max(LEAST_PRICE, this.requestPrice[i] + size * (requests - requestRate[i]));
    this.completionPrice[i] = Math.max(0, this.completionPrice[i] + size * (polled - completionRate[i]));
  }

  private stepLog(i: number, size: number): void {
    const { start, alpha, beta, weights, completions, requestRate } = this.problem;
    const price = this.requestPrice[i];
    let used = 0;
    for (let v = start[i]; v < start[i + 1]; v++) {
      const [a, w] = [completions[v], weights[v]];
      const x =
        alpha > 1
          ? demand(alpha - 1, w, 2, (2 * beta) / (a * a), price, this.x[v])
          : Math.sqrt((2 * beta) / (price - w)) / a;
      // Also without a limit: more than the host can issue.
      this.x[v] = x <= requestRate[i] ? x : requestRate[i];
      used += Math.log(this.x[v]);
    }
    this.requestPrice[i] = Math.max(LEAST_PRICE, price + size * (used - this.bounds[i]));
  }
}

/**
 * The rate at which the gain w x^-p + g x^-q, convex and falling, is the price.
 * @param guess above 0; the closer, the faster
 */
export function demand(p: number, w: number, q: number, g: number, price: number, guess: number): number {
  let x = guess;
  for (let i = 0; i < MOST_STEPS; i++) {
    const [first, second] = [w * inversePower(x, p), g * inversePower(x, q)];
    const step = ((first + second - price) * x) / (p * first + q * second);
    x = step <= -x ? x * 0.1 : x + step;
    if (Math.abs(step) <= 1e-9 * x) break;
  }
  return x;
}
