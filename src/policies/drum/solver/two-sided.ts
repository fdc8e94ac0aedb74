/**
 * Algorithm 2: allocation for two-sided verbs, whose requests cause completions on the receiving hosts as well. A row is
 * one application on one host; S is the sum of its completions over all senders, n the number of these, U its scaled dual.
 *
 *   each row      asks its senders for p x = t, where t = p x_last - (S - z + U) / n
 *   x-step        minimise -w f(x) + sum over rows of rho/2 (p x - t)^2, where the x of the host fit
 *   each row      S = sum of p x, from the messages of its senders
 *   z-step        minimise beta z^-2 + rho/(2n) (z - S - U)^2, where the z of the host fit
 *   U-step        U = U + S - z
 *
 * There is no central node: hosts exchange p x and t, the latter with rho, which changes at times. With `lost`, the
 * receiver of a message uses the last one.
 */
import { Cone } from './cone.ts';
import { fill, LEAST_RATE, PASSES } from './fill.ts';
import { type Iteration, type IterationOptions, type Lost, OWN_MEMORY } from './one-sided.ts';
import {
  Curves,
  completionCurvature,
  computePenalties,
  MOST_CHANGE,
  RENEWALS,
  requestCurvature,
} from './penalty.ts';
import { type DrumProblem, requireProblem } from './problem.ts';
import { inversePower } from './roots.ts';
import {
  askOf,
  dualAt,
  givesWay,
  loadCompletions,
  loadRequests,
  type RowColumns,
  stepDuals,
  takeCompletions,
  takePenalties,
  type VariableColumns,
} from './row-steps.ts';
import { type Rows, rowsOf } from './rows.ts';
import { Steps } from './steps.ts';
import { type Units, unitsOf } from './units.ts';

/**
 * The largest rate at the beginning, relative to an equal share of the host's requests: larger ones would leave others rates
 * near 0, where z^-3 is out of proportion.
 */
const MOST_SHARE = 4;

/** Runs Algorithm 2. @throws ProblemError from the constructor */
export class TwoSided implements Iteration {
  readonly problem: DrumProblem;
  iteration = 0;
  primal = Number.POSITIVE_INFINITY;
  dual = Number.POSITIVE_INFINITY;
  /** Per variable, in the units of the iteration. */
  readonly x: Float64Array;
  /** Per row. */
  readonly z: Float64Array;
  readonly sum: Float64Array;
  readonly u: Float64Array;
  readonly rho: Float64Array;
  /** Per entry: the last messages of the sender (p x) and of the row (t and rho). */
  private readonly sent: Float64Array;
  private readonly asked: Float64Array;
  private readonly askedRho: Float64Array;
  private readonly rows: Rows;
  /** The same as columns. */
  private readonly rowColumns: RowColumns;
  private readonly variables: VariableColumns;
  private readonly units: Units;
  private readonly requestPrice: Float64Array;
  private readonly completionPrice: Float64Array;
  /** Per host: squared norms of both residuals. */
  private readonly residuals: Float64Array;
  private readonly changes: Float64Array;
  private readonly steps: Steps;
  private readonly curves: Curves;
  private readonly cone: Cone | null;
  private readonly options: IterationOptions;
  private readonly hostOfRow: Int32Array;

  constructor(problem: DrumProblem, options: IterationOptions = {}) {
    requireProblem(problem, options.mostDestinations);
    const { hosts, start, app } = problem;
    this.problem = problem;
    this.options = options;
    this.rows = rowsOf(problem);
    const count = this.rows.sharers.length;
    const polled = Array.from({ length: hosts }, (_, i) => this.rows.start[i + 1] - this.rows.start[i]);
    this.units = unitsOf(problem, polled);
    const { memory = OWN_MEMORY } = options;
    const columns = (many: number, length: number) =>
      Array.from({ length: many }, () => memory.allocate(length));
    [this.x] = columns(1, app.length);
    [this.z, this.sum, this.u, this.rho] = columns(4, count);
    [this.sent, this.asked, this.askedRho] = columns(3, this.rows.per.length);
    const { x, z, sum, u, rho, asked, askedRho } = this;
    const { entryStart, per, sharers } = this.rows;
    this.rowColumns = { z, sum, u, rho, sharers };
    this.variables = { x, weights: problem.weights, entryStart, per, asked, askedRho };
    [this.requestPrice, this.completionPrice, this.residuals, this.changes] = columns(4, hosts);
    this.hostOfRow = new Int32Array(count);
    for (let i = 0; i < hosts; i++) this.hostOfRow.fill(i, this.rows.start[i], this.rows.start[i + 1]);
    const most = polled.reduce((a, b, i) => Math.max(a, b, start[i + 1] - start[i]), 0);
    this.steps = new Steps(most);
    this.curves = new Curves(most);
    this.cone = problem.preemption === undefined ? null : new Cone(problem.preemption);
    if (!memory.hasBegun) this.begin();
  }

  /**
   * Each row gets an equal share of the completions of its host, and asks an equal part of it of each sender. A rate begins
   * as the geometric mean of what its rows ask for, which needs one message from each row. Near the optimum, rates change
   * little from one iteration to the next, so that lost messages cost little.
   */
  private begin(): void {
    const { hosts, start, requestRate } = this.problem;
    const { x } = this;
    for (let host = 0; host < hosts; host++) {
      const requests = requestRate[host] / this.units.rate;
      const most = (MOST_SHARE * requests) / (start[host + 1] - start[host]);
      let all = 0;
      for (let v = start[host]; v < start[host + 1]; v++) {
        x[v] = Math.min(most, this.firstRate(v));
        all += x[v];
      }
      const factor = Math.min(1, requests / all);
      for (let v = start[host]; v < start[host + 1]; v++) x[v] *= factor;
    }
    this.send(0, hosts);
    this.collect(0, hosts);
    this.z.set(this.sum);
    this.renewPenalties(Number.POSITIVE_INFINITY);
    this.asked.set(this.sent);
    for (let e = 0; e < this.asked.length; e++) this.askedRho[e] = this.rho[this.rows.row[e]];
    const { beta } = this.units;
    const atZero = this.options.startAtZero === true;
    for (let r = 0; r < this.z.length; r++) {
      if (atZero) this.z[r] = 0;
      else this.u[r] = dualAt(this.rowColumns, r, beta);
    }
  }

  /** What the rows of variable v ask for at the beginning. */
  private firstRate(v: number): number {
    const { start, entryStart, row, per, sharers } = this.rows;
    const [first, end] = [entryStart[v], entryStart[v + 1]];
    let logarithm = 0;
    for (let e = first; e < end; e++) {
      const host = this.hostOfRow[row[e]];
      const share = this.problem.completionRate[host] / this.units.rate / (start[host + 1] - start[host]);
      logarithm += Math.log(share / sharers[row[e]] / per[e]);
    }
    return Math.exp(logarithm / (end - first));
  }

  /** The messages from senders to rows. */
  private send(first: number, end: number, lost?: Lost): void {
    const { start } = this.problem;
    const { entryStart, row, per } = this.rows;
    for (let host = first; host < end; host++) {
      for (let v = start[host]; v < start[host + 1]; v++) {
        for (let e = entryStart[v]; e < entryStart[v + 1]; e++) {
          if (lost === undefined || !this.loses(lost, 2 * this.iteration, host, this.hostOfRow[row[e]]))
            this.sent[e] = per[e] * this.x[v];
        }
      }
    }
  }

  /** The sums of the rows of these hosts. */
  private collect(from: number, end: number): void {
    const { start, first, entries } = this.rows;
    const { sum, sent } = this;
    for (let r = start[from]; r < start[end]; r++) {
      let all = 0;
      for (let i = first[r]; i < first[r + 1]; i++) all += sent[entries[i]];
      sum[r] = all;
    }
  }

  /** Nothing is lost within a host. */
  private loses(lost: Lost, round: number, from: number, to: number): boolean {
    return from !== to && lost(round, from, to);
  }

  /** Computes all penalties from the present rates; U is scaled by them. */
  private renewPenalties(most: number): void {
    const { rho: rule = 'row' } = this.options;
    const { capacity } = this.problem;
    const { curves } = this;
    const { start } = this.rows;
    const rows = this.curvaturesOfRows();
    for (let host = 0; host < this.problem.hosts; host++) {
      const [from, to] = [start[host], start[host + 1]];
      curves.length = to - from;
      if (typeof rule === 'number') curves.rho.fill(rule, 0, to - from);
      else {
        let gains = 0;
        for (let r = from; r < to; r++) {
          const j = r - from;
          const square = Math.max(this.sum[r], LEAST_RATE) ** 2;
          curves.requests[j] = rows.requests[r];
          curves.held[j] = rows.held[r];
          curves.completions[j] = rows.completions[r];
          curves.least[j] = capacity === 'logsum' ? 2 / square : 0;
          gains += rows.gains[r] + (2 * this.units.beta) / square;
        }
        for (let j = 0; j < to - from; j++) curves.least[j] *= gains / (to - from);
        curves.completionsBind = this.completionPrice[host] > 0;
        // A rate that several rows have in common is bound to them as to a capacity.
        curves.requestsBind = true;
        computePenalties(curves, rule, capacity);
      }
      takePenalties(curves, this.rowColumns, from, to, most);
    }
  }

  /**
   * Per row: what `Curves` has, and the mean gain w x^(1 - alpha) of its senders. The curvatures of several senders are
   * springs in a row: their harmonic mean counts.
   */
  private curvaturesOfRows() {
    const { app, alpha, weights } = this.problem;
    const { entryStart, row, per, sharers } = this.rows;
    const { beta, weight } = this.units;
    const columns = Array.from({ length: 4 }, () => new Float64Array(sharers.length));
    const [requests, held, completions, gains] = columns;
    for (let r = 0; r < completions.length; r++)
      completions[r] = completionCurvature(beta, Math.max(this.sum[r], LEAST_RATE), false);
    for (let v = 0; v < app.length; v++) {
      const x = Math.max(this.x[v], LEAST_RATE);
      const w = weights[v] * weight;
      const own = requestCurvature(w, x, alpha, false);
      const gain = w * x * inversePower(x, alpha);
      let all = own;
      for (let e = entryStart[v]; e < entryStart[v + 1]; e++) all += completions[row[e]] * per[e] * per[e];
      for (let e = entryStart[v]; e < entryStart[v + 1]; e++) {
        const r = row[e];
        const square = per[e] * per[e];
        requests[r] += square / own;
        held[r] += givesWay(square, own, all - own - completions[r] * square);
        gains[r] += gain / sharers[r];
      }
    }
    for (let r = 0; r < completions.length; r++) {
      requests[r] = sharers[r] / requests[r];
      held[r] = sharers[r] / held[r];
      completions[r] *= sharers[r];
    }
    return { requests, held, completions, gains };
  }

  readonly stages = 4;

  step(lost?: Lost): void {
    for (let stage = 0; stage < this.stages; stage++) this.runStage(stage, 0, this.problem.hosts, lost);
    this.finishStep();
  }

  runStage(stage: number, first: number, end: number, lost?: Lost): void {
    // Penalties depend on all hosts, and are seldom renewed.
    if (stage === 0 && first === 0 && this.options.renews !== false && RENEWALS.includes(this.iteration))
      this.renewPenalties(MOST_CHANGE);
    if (stage === 1) for (let host = first; host < end; host++) this.xStep(host, lost);
    if (stage === 2) this.send(first, end, lost);
    if (stage < 3) return;
    this.collect(first, end);
    for (let host = first; host < end; host++) {
      this.changes[host] = this.zStep(host);
      this.residuals[host] = stepDuals(this.rowColumns, this.rows.start[host], this.rows.start[host + 1]);
    }
  }

  finishStep(): void {
    let [primal, dual] = [0, 0];
    for (let host = 0; host < this.problem.hosts; host++) {
      primal += this.residuals[host];
      dual += this.changes[host];
    }
    this.iteration++;
    this.primal = Math.sqrt(primal) * this.units.rate;
    this.dual = Math.sqrt(dual) * this.units.rate;
  }

  /** Rows ask their senders, and these follow. */
  private xStep(host: number, lost?: Lost): void {
    const { start, alpha, capacity } = this.problem;
    const { steps, x, rho, sent, asked, askedRho } = this;
    const { entryStart, row } = this.rows;
    const [from, to] = [start[host], start[host + 1]];
    for (let e = entryStart[from]; e < entryStart[to]; e++) {
      const r = row[e];
      if (lost !== undefined && this.loses(lost, 2 * this.iteration + 1, this.hostOfRow[r], host)) continue;
      asked[e] = askOf(this.rowColumns, r, sent[e]);
      askedRho[e] = rho[r];
    }
    loadRequests(steps, this.variables, from, to, this.units.weight);
    const [bound, price] = [this.units.requests[host], this.requestPrice[host]];
    this.requestPrice[host] =
      this.cone === null
        ? fill(steps, PASSES[capacity], alpha, bound, price)
        : this.cone.fill(steps, from, alpha, bound, price);
    for (let v = from; v < to; v++) x[v] = steps.x[v - from];
  }

  /** Returns the squared change of z. */
  private zStep(host: number): number {
    const { steps, rowColumns } = this;
    const [from, to] = [this.rows.start[host], this.rows.start[host + 1]];
    loadCompletions(steps, rowColumns, from, to, this.units.beta);
    const pass = PASSES[this.problem.capacity];
    const [bound, price] = [this.units.completions[host], this.completionPrice[host]];
    this.completionPrice[host] = fill(steps, pass, 3, bound, price);
    return takeCompletions(steps, rowColumns, from, to);
  }

  rates(into: Float64Array): Float64Array {
    for (let v = 0; v < this.x.length; v++) into[v] = this.x[v] * this.units.rate;
    return into;
  }
}
