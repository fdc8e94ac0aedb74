/**
 * The baseline of the paper: prices of both capacities of each host, moved by a subgradient step of s / sqrt(k). For
 * one-sided verbs and linear capacities.
 */
import { ProblemError } from '../../../verbs/errors.ts';
import { type DrumProblem, requireProblem } from './problem.ts';
import { inversePower } from './roots.ts';

/** The step of the paper, for rates in Mops. */
export const PAPER_STEP = 1e-3;
const MOST_STEPS = 100;

/** Runs the baseline. @throws ProblemError from the constructor */
export class DualDecomposition {
  readonly x: Float64Array;
  iteration = 0;
  private readonly problem: DrumProblem;
  private readonly step0: number;
  private readonly requestPrice: Float64Array;
  private readonly completionPrice: Float64Array;

  constructor(problem: DrumProblem, step = PAPER_STEP) {
    requireProblem(problem);
    if (problem.capacity !== 'linear' || problem.traffic !== undefined)
      throw new ProblemError('invalid: the baseline requires linear capacities and no traffic');
    this.problem = problem;
    this.step0 = step;
    this.x = new Float64Array(problem.app.length).fill(1);
    this.requestPrice = new Float64Array(problem.hosts).fill(1);
    this.completionPrice = new Float64Array(problem.hosts).fill(1);
  }

  step(): void {
    const { hosts, start, alpha, beta, weights, completions, requestRate, completionRate } = this.problem;
    const size = this.step0 / Math.sqrt(++this.iteration);
    for (let i = 0; i < hosts; i++) {
      let [requests, polled] = [0, 0];
      for (let v = start[i]; v < start[i + 1]; v++) {
        const a = completions[v];
        const price = this.requestPrice[i] + this.completionPrice[i] * a;
        const x = demand(alpha, weights[v], (2 * beta) / (a * a), price, this.x[v]);
        this.x[v] = x;
        requests += x;
        polled += a * x;
      }
      this.requestPrice[i] = Math.max(1e-9, this.requestPrice[i] + size * (requests - requestRate[i]));
      this.completionPrice[i] = Math.max(0, this.completionPrice[i] + size * (polled - completionRate[i]));
    }
  }
}

/** The rate at which the gain w x^-alpha + g x^-3, convex and falling, is the price. */
function demand(alpha: number, w: number, g: number, price: number, guess: number): number {
  let x = guess;
  for (let i = 0; i < MOST_STEPS; i++) {
    const [first, second] = [w * inversePower(x, alpha), g * inversePower(x, 3)];
    const step = ((first + second - price) * x) / (alpha * first + 3 * second);
    x = step <= -x ? x * 0.1 : x + step;
    if (Math.abs(step) <= 1e-9 * x) break;
  }
  return x;
}
