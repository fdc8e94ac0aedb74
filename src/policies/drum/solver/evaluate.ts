/** What an allocation is worth, and the largest part of it that fits the capacities. */
import type { DrumProblem } from './problem.ts';
import { type Rows, rowsOf } from './rows.ts';

/** The utility of an allocation: of requests, and of completions. */
export interface Utility {
  readonly requests: number;
  readonly completions: number;
}

/** Evaluates allocations of one problem. */
export class Evaluator {
  private readonly problem: DrumProblem;
  private readonly rows: Rows;
  private readonly fitted: Float64Array;
  private readonly z: Float64Array;

  constructor(problem: DrumProblem) {
    this.problem = problem;
    this.rows = rowsOf(problem);
    this.fitted = new Float64Array(problem.app.length);
    this.z = new Float64Array(this.rows.sharers.length);
  }

  /**
   * The rates that hosts would enforce: lowered so that each host fits its rates of requests and completions, in the sense
   * of the problem's capacity. The result is valid until the next call.
   */
  enforceable(x: Float64Array): Float64Array {
    const { hosts, start, capacity } = this.problem;
    const { fitted } = this;
    fitted.set(x);
    for (let host = 0; host < hosts; host++) {
      const [from, to] = [start[host], start[host + 1]];
      if (from === to) continue;
      const factor = this.requestFactor(fitted, host);
      if (factor < 1) for (let v = from; v < to; v++) fitted[v] *= factor;
    }
    this.completionsOf(fitted);
    const factors = new Float64Array(this.z.length);
    for (let host = 0; host < hosts; host++) {
      const [from, to] = [this.rows.start[host], this.rows.start[host + 1]];
      factors.fill(
        factorOf(this.z, from, to, this.problem.completionRate[host], capacity !== 'linear'),
        from,
        to,
      );
    }
    const { entryStart, row } = this.rows;
    for (let v = 0; v < fitted.length; v++) {
      let least = 1;
      for (let e = entryStart[v]; e < entryStart[v + 1]; e++) least = Math.min(least, factors[row[e]]);
      fitted[v] *= least;
    }
    return fitted;
  }

  private requestFactor(x: Float64Array, host: number): number {
    const { start, capacity, requestRate, preemption } = this.problem;
    const [from, to] = [start[host], start[host + 1]];
    if (preemption === undefined) return factorOf(x, from, to, requestRate[host], capacity !== 'linear');
    let [sum, square] = [0, 0];
    for (let v = from; v < to; v++) {
      sum += preemption.guaranteed[v] * x[v];
      square += (preemption.preemptible[v] * x[v]) ** 2;
    }
    return Math.min(1, requestRate[host] / (sum + Math.sqrt(square)));
  }

  /** Completions of every row. */
  private completionsOf(x: Float64Array): void {
    const { entryStart, row, per } = this.rows;
    this.z.fill(0);
    for (let v = 0; v < x.length; v++)
      for (let e = entryStart[v]; e < entryStart[v + 1]; e++) this.z[row[e]] += per[e] * x[v];
  }

  /** The utility of these rates, whether they fit or not. */
  utility(x: Float64Array): Utility {
    const { alpha, beta, weights } = this.problem;
    let requests = 0;
    for (let v = 0; v < x.length; v++)
      requests += weights[v] * (alpha === 1 ? Math.log(x[v]) : x[v] ** (1 - alpha) / (1 - alpha));
    this.completionsOf(x);
    let completions = 0;
    for (const z of this.z) completions -= beta / (z * z);
    return { requests, completions };
  }

  /**
   * How good rates are, relative to the optimum: the factor t for which t times the optimal rates are worth as much. It
   * needs no unit and no origin, unlike a ratio of utilities.
   */
  efficiency(x: Float64Array, optimum: Utility): number {
    const { alpha, weights } = this.problem;
    const { requests, completions } = this.utility(x);
    const total = requests + completions;
    const whole = weights.reduce((sum, w) => sum + w, 0);
    const worth = (t: number) =>
      (alpha === 1 ? optimum.requests + whole * Math.log(t) : optimum.requests * t ** (1 - alpha)) +
      optimum.completions / (t * t);
    let [low, high] = [1e-6, 2];
    for (let i = 0; i < 80; i++) {
      const middle = (low + high) / 2;
      if (worth(middle) < total) low = middle;
      else high = middle;
    }
    return (low + high) / 2;
  }
}

/** The factor, at most 1, by which values fit: their sum, or their product. */
function factorOf(values: Float64Array, from: number, to: number, rate: number, isLog: boolean): number {
  const members = to - from;
  let sum = 0;
  for (let i = from; i < to; i++) sum += isLog ? Math.log(values[i]) : values[i];
  if (!isLog) return sum <= rate ? 1 : rate / sum;
  const bound = members * Math.log(rate / members);
  return sum <= bound ? 1 : Math.exp((bound - sum) / members);
}
