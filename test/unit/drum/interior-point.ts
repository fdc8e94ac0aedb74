// Optima of small problems with linear capacities, by Newton's method with a barrier over all rates together. Shares no
// code with the solvers, and does not divide the problem among hosts.
import type { DrumProblem } from '../../../src/policies/drum/solver/problem.ts';

/** Completions of a row: coefficients by variable. */
type Row = Map<number, number>;

function rowsOf({ hosts, start, app, completions, traffic }: DrumProblem): Map<string, Row> {
  const rows = new Map<string, Row>();
  const add = (host: number, one: number, v: number, per: number) => {
    const key = `${host} ${one}`;
    const row = rows.get(key) ?? new Map();
    row.set(v, (row.get(v) ?? 0) + per);
    rows.set(key, row);
  };
  for (let i = 0; i < hosts; i++) {
    for (let v = start[i]; v < start[i + 1]; v++) {
      add(i, app[v], v, completions[v]);
      for (let e = traffic?.start[v] ?? 0; e < (traffic?.start[v + 1] ?? 0); e++)
        add(traffic!.host[e], app[v], v, traffic!.perRequest[e]);
    }
  }
  return rows;
}

/** Solves a x = b by elimination. */
function solved(a: number[][], b: number[]): number[] {
  const n = b.length;
  for (let k = 0; k < n; k++) {
    let top = k;
    for (let i = k + 1; i < n; i++) if (Math.abs(a[i][k]) > Math.abs(a[top][k])) top = i;
    [a[k], a[top], b[k], b[top]] = [a[top], a[k], b[top], b[k]];
    for (let i = k + 1; i < n; i++) {
      const factor = a[i][k] / a[k][k];
      for (let j = k; j < n; j++) a[i][j] -= factor * a[k][j];
      b[i] -= factor * b[k];
    }
  }
  for (let k = n - 1; k >= 0; k--) {
    for (let j = k + 1; j < n; j++) b[k] -= a[k][j] * b[j];
    b[k] /= a[k][k];
  }
  return b;
}

/** The negative of the utility times t, and the barrier: infinite outside. */
class Barrier {
  private readonly rows: Row[];
  private readonly polled: Map<number, number>[];
  private readonly problem: DrumProblem;

  constructor(problem: DrumProblem) {
    this.problem = problem;
    const rows = rowsOf(problem);
    this.rows = [...rows.values()];
    this.polled = Array.from({ length: problem.hosts }, (_, i) => {
      const sum = new Map<number, number>();
      for (const [key, row] of rows)
        if (key.startsWith(`${i} `)) for (const [v, p] of row) sum.set(v, (sum.get(v) ?? 0) + p);
      return sum;
    });
  }

  private readonly sumOf = (row: Row, x: number[]) => [...row].reduce((all, [v, p]) => all + p * x[v], 0);

  private norm(i: number, x: number[]): number {
    const { preemption, start } = this.problem;
    let square = 0;
    for (let v = start[i]; v < start[i + 1]; v++) square += ((preemption?.preemptible[v] ?? 0) * x[v]) ** 2;
    return Math.sqrt(square);
  }

  private slack(i: number, x: number[]): number {
    const { preemption, start, requestRate } = this.problem;
    let sum = 0;
    for (let v = start[i]; v < start[i + 1]; v++) sum += (preemption?.guaranteed[v] ?? 1) * x[v];
    return requestRate[i] - sum - this.norm(i, x);
  }

  value(x: number[], t: number): number {
    const { alpha, beta, weights, hosts, completionRate } = this.problem;
    if (x.some((one) => one <= 0)) return Number.POSITIVE_INFINITY;
    let utility = 0;
    for (const [v, one] of x.entries())
      utility += weights[v] * (alpha === 1 ? Math.log(one) : one ** (1 - alpha) / (1 - alpha));
    for (const row of this.rows) utility -= beta / this.sumOf(row, x) ** 2;
    let barrier = 0;
    for (let i = 0; i < hosts; i++) {
      const slacks = [this.slack(i, x), completionRate[i] - this.sumOf(this.polled[i], x)];
      if (slacks.some((slack) => slack <= 0)) return Number.POSITIVE_INFINITY;
      for (const slack of slacks) barrier -= Math.log(slack);
    }
    return barrier - t * utility;
  }

  newton(x: number[], t: number): { step: number[]; decrement: number } {
    const { alpha, beta, weights, hosts, completionRate, start, preemption } = this.problem;
    const n = x.length;
    const g = x.map((one, v) => -t * weights[v] * one ** -alpha);
    const h = Array.from({ length: n }, () => new Array<number>(n).fill(0));
    for (const [v, one] of x.entries()) h[v][v] += t * alpha * weights[v] * one ** (-alpha - 1);
    const rankOne = (row: Row, first: number, second: number) => {
      for (const [v, p] of row) {
        g[v] += first * p;
        for (const [u, r] of row) h[v][u] += second * p * r;
      }
    };
    for (const row of this.rows) {
      const sum = this.sumOf(row, x);
      rankOne(row, -2 * t * beta * sum ** -3, 6 * t * beta * sum ** -4);
    }
    for (let i = 0; i < hosts; i++) {
      const left = completionRate[i] - this.sumOf(this.polled[i], x);
      rankOne(this.polled[i], 1 / left, 1 / left ** 2);
      const [slack, norm] = [this.slack(i, x), this.norm(i, x)];
      const slope: Row = new Map();
      for (let v = start[i]; v < start[i + 1]; v++) {
        const q = preemption?.preemptible[v] ?? 0;
        slope.set(v, (preemption?.guaranteed[v] ?? 1) + (norm > 0 ? (q * q * x[v]) / norm : 0));
        if (norm === 0) continue;
        h[v][v] += (q * q) / norm / slack;
        for (let u = start[i]; u < start[i + 1]; u++)
          h[v][u] -= (q * q * x[v] * (preemption!.preemptible[u] ** 2 * x[u])) / norm ** 3 / slack;
      }
      rankOne(slope, 1 / slack, 1 / slack ** 2);
    }
    const step = solved(
      h.map((line) => [...line]),
      g.map((one) => -one),
    );
    return { step, decrement: -step.reduce((sum, one, v) => sum + one * g[v], 0) };
  }
}

/** The optimal rates, to about eight digits. */
export function interiorOptimum(problem: DrumProblem): number[] {
  const barrier = new Barrier(problem);
  let x = Array.from(problem.weights, () => 1e-3);
  for (let t = 1; t < 1e11; t *= 8) {
    for (let i = 0; i < 60; i++) {
      const { step, decrement } = barrier.newton(x, t);
      if (!(decrement > 1e-13)) break;
      const now = barrier.value(x, t);
      let size = 1;
      const at = () => x.map((one, v) => one + size * step[v]);
      while (!(barrier.value(at(), t) <= now - 1e-4 * size * decrement) && size > 1e-12) size /= 2;
      x = at();
    }
  }
  return x;
}
