/**
 * Algorithm 1: allocation for one-sided verbs, whose completions arise on the own host. Utilities, capacities and duals
 * are those of one host, so that hosts need no communication; u is a dual per variable.
 *
 *   x-step  minimise -w f(x) + u (a x - z) + rho/2 (a x - z)^2   where the x of the host fit its request rate
 *   z-step  minimise beta z^-2 - u z + rho/2 (a x - z)^2   where the z of the host fit its completion rate
 *   u-step  u = u + rho (a x - z)
 *
 * With `logdomain`, x and z are logarithms, and log a + x - z takes the place of a x - z.
 */
import { Cone } from './cone.ts';
import { fill, LEAST_RATE, PASSES } from './fill.ts';
import {
  Curves,
  completionCurvature,
  computePenalties,
  LEAST_LOG_PENALTY,
  MOST_CHANGE,
  type PenaltyRule,
  RENEWALS,
  requestCurvature,
} from './penalty.ts';
import { type DrumProblem, requireProblem } from './problem.ts';
import { inversePower } from './roots.ts';
import { Steps } from './steps.ts';
import { type Units, unitsOf } from './units.ts';

/** Settings of an iteration. */
export interface IterationOptions {
  /**
   * The penalty: one number in the units of the iteration, or the rule of penalty.ts for each row (default) or for each
   * host.
   */
  readonly rho?: number | PenaltyRule;
  /** Whether the penalties are computed again at some iterations; default true. */
  readonly renews?: boolean;
  /** Whether x, z and the duals begin at 0, as in the paper, instead of at equal shares and their duals. */
  readonly startAtZero?: boolean;
  /** The largest number of hosts to which an application may send. */
  readonly mostDestinations?: number;
  readonly memory?: Memory;
}

/** Where an iteration keeps its state, which several iterations of the same problem can share. */
export interface Memory {
  /** Called in the same order for the same problem. The values are 0, or those of an iteration that has begun. */
  allocate(length: number): Float64Array;
  /** Whether the values are those of an iteration that has begun. */
  readonly hasBegun: boolean;
}

/** Memory that is not shared. */
export const OWN_MEMORY: Memory = { allocate: (length) => new Float64Array(length), hasBegun: false };

/** Whether a value is lost or late in this iteration: the receiver uses that of the last one. */
export type Lost = (iteration: number, from: number, to: number) => boolean;

/** The state of an iteration, which both algorithms share. */
export interface Iteration {
  readonly problem: DrumProblem;
  /** Completed steps. */
  readonly iteration: number;
  /** Norms of the residuals of the last step, in the units of the problem: ||F(x) - z|| and the change of z. */
  readonly primal: number;
  readonly dual: number;
  step(lost?: Lost): void;
  /**
   * A step consists of these stages, each for all hosts before the next one, and of `finishStep`. Several iterations that
   * share their memory can divide the hosts among each other, and all of them finish the step.
   */
  readonly stages: number;
  /** @param first the first host @param end the host behind the last one */
  runStage(stage: number, first: number, end: number, lost?: Lost): void;
  /** Sums up the residuals of all hosts, always in the same order. */
  finishStep(): void;
  /** Writes the rates of requests, and returns `into`. */
  rates(into: Float64Array): Float64Array;
}

/** Runs Algorithm 1. @throws ProblemError from the constructor */
export class OneSided implements Iteration {
  readonly problem: DrumProblem;
  iteration = 0;
  primal = Number.POSITIVE_INFINITY;
  dual = Number.POSITIVE_INFINITY;
  /** In the units of the iteration; logarithms with `logdomain`. */
  readonly x: Float64Array;
  readonly z: Float64Array;
  readonly u: Float64Array;
  /** Penalties of the rows a x = z. */
  readonly rho: Float64Array;
  private readonly options: IterationOptions;
  private readonly rule: number | PenaltyRule;
  private readonly units: Units;
  private readonly requestPrice: Float64Array;
  private readonly completionPrice: Float64Array;
  /** Per host: squared norms of both residuals. */
  private readonly residuals: Float64Array;
  private readonly changes: Float64Array;
  private readonly steps: Steps;
  private readonly curves: Curves;
  private readonly cone: Cone | null;
  /** Whether x and z are logarithms. */
  private readonly isLog: boolean;

  constructor(problem: DrumProblem, options: IterationOptions = {}) {
    requireProblem(problem, options.mostDestinations);
    const { hosts, start, app } = problem;
    this.problem = problem;
    this.options = options;
    this.rule = options.rho ?? 'row';
    this.isLog = problem.capacity === 'logdomain';
    const members = Array.from({ length: hosts }, (_, i) => start[i + 1] - start[i]);
    this.units = unitsOf(problem, members);
    const { memory = OWN_MEMORY } = options;
    [this.x, this.z, this.u, this.rho] = [0, 1, 2, 3].map(() => memory.allocate(app.length));
    [this.requestPrice, this.completionPrice] = [0, 1].map(() => memory.allocate(hosts));
    [this.residuals, this.changes] = [0, 1].map(() => memory.allocate(hosts));
    const most = members.reduce((a, b) => Math.max(a, b), 0);
    this.steps = new Steps(most);
    this.curves = new Curves(most);
    this.cone = problem.preemption === undefined ? null : new Cone(problem.preemption);
    if (problem.capacity !== 'linear') this.keepTighter();
    if (memory.hasBegun) return;
    for (let host = 0; host < hosts; host++) this.begin(host);
  }

  /**
   * Both capacities of a host bound the same sum of logarithms, because those of z and x differ by log a: only the tighter
   * one is kept. With both, their prices would be undetermined.
   */
  private keepTighter(): void {
    const { hosts, start, completions } = this.problem;
    const { units } = this;
    for (let host = 0; host < hosts; host++) {
      let offset = 0;
      for (let v = start[host]; v < start[host + 1]; v++) offset += Math.log(completions[v]);
      units.requests[host] = Math.min(units.requests[host], units.completions[host] - offset);
      units.completions[host] = Number.POSITIVE_INFINITY;
    }
  }

  /** Equal shares, the duals at which the z-step returns them, and the penalties there. */
  private begin(host: number): void {
    const { start, completions, requestRate, completionRate } = this.problem;
    const { rate, beta } = this.units;
    const [from, to] = [start[host], start[host + 1]];
    const [request, completion] = [requestRate[host], completionRate[host]].map(
      (of) => of / rate / (to - from),
    );
    for (let v = from; v < to; v++) {
      const x = Math.min(request, completion / completions[v]);
      const z = completions[v] * x;
      this.x[v] = this.isLog ? Math.log(x) : x;
      this.z[v] = this.isLog ? Math.log(z) : z;
      this.u[v] = this.isLog ? -2 * beta * z ** -2 : -2 * beta * z ** -3;
    }
    this.renewPenalties(host, Number.POSITIVE_INFINITY);
    if (this.options.startAtZero !== true) return;
    this.z.fill(0, from, to);
    this.u.fill(0, from, to);
  }

  /** Computes the penalties of a host from its present rates. @param most the largest factor of a change */
  private renewPenalties(host: number, most: number): void {
    const { problem, isLog, rule, curves, x, rho } = this;
    const { start, completions, weights, completionRate } = problem;
    const [from, to] = [start[host], start[host + 1]];
    if (typeof rule === 'number') {
      rho.fill(rule, from, to);
      return;
    }
    const { alpha, capacity } = problem;
    const { weight, beta } = this.units;
    let [polled, gains] = [0, 0];
    for (let v = from; v < to; v++) {
      const j = v - from;
      const a = completions[v];
      const rate = Math.max(isLog ? Math.exp(x[v]) : x[v], LEAST_RATE);
      const z = a * rate;
      const w = weights[v] * weight;
      const curvature = requestCurvature(w, rate, alpha, isLog);
      curves.requests[j] = isLog ? curvature : curvature / (a * a);
      curves.held[j] = curves.requests[j];
      curves.completions[j] = completionCurvature(beta, z, isLog);
      polled += z;
      curves.least[j] = 0;
      if (capacity === 'linear') continue;
      const gain = w * rate * inversePower(rate, alpha);
      curves.least[j] = isLog ? LEAST_LOG_PENALTY * gain : 2 / (z * z);
      gains += gain + (2 * beta) / (z * z);
    }
    if (capacity === 'logsum') for (let j = 0; j < to - from; j++) curves.least[j] *= gains / (to - from);
    curves.length = to - from;
    const isFirst = this.iteration === 0;
    const isLinear = capacity === 'linear';
    const fits = polled <= (completionRate[host] / this.units.rate) * (1 - 1e-9);
    curves.completionsBind = isLinear && (isFirst ? !fits : this.completionPrice[host] > 0);
    curves.requestsBind = isFirst || !isLinear ? !curves.completionsBind : this.requestPrice[host] > 0;
    computePenalties(curves, rule, capacity);
    for (let v = from; v < to; v++) {
      const was = rho[v];
      const now = curves.rho[v - from];
      rho[v] = was === 0 ? now : Math.max(was / most, Math.min(now, was * most));
    }
  }

  readonly stages = 1;

  step(lost?: Lost): void {
    this.runStage(0, 0, this.problem.hosts, lost);
    this.finishStep();
  }

  runStage(_stage: number, first: number, end: number, lost?: Lost): void {
    const renews = this.options.renews !== false && RENEWALS.includes(this.iteration);
    for (let host = first; host < end; host++) {
      if (renews) this.renewPenalties(host, MOST_CHANGE);
      // The paper collects x and z between the steps: either can miss the round.
      if (lost?.(this.iteration, host, 0) !== true) this.xStep(host);
      this.changes[host] = lost?.(this.iteration, host, 1) === true ? 0 : this.zStep(host);
      this.residuals[host] = this.uStep(host);
    }
  }

  finishStep(): void {
    let [primal, dual] = [0, 0];
    for (let host = 0; host < this.problem.hosts; host++) {
      primal += this.residuals[host];
      dual += this.changes[host];
    }
    this.iteration++;
    const unit = this.isLog ? 1 : this.units.rate;
    this.primal = Math.sqrt(primal) * unit;
    this.dual = Math.sqrt(dual) * unit;
  }

  private xStep(host: number): void {
    const { start, alpha, completions, weights, capacity } = this.problem;
    const { steps, x, z, u, isLog, cone } = this;
    const { weight } = this.units;
    const [from, to] = [start[host], start[host + 1]];
    for (let v = from; v < to; v++) {
      const j = v - from;
      const rho = this.rho[v];
      const s = isLog ? 1 : completions[v];
      const offset = isLog ? Math.log(completions[v]) : 0;
      steps.w[j] = weights[v] * weight;
      steps.a[j] = rho * s * s;
      steps.b[j] = s * (u[v] + rho * (offset - z[v]));
      steps.x[j] = x[v];
    }
    steps.length = to - from;
    const [bound, price] = [this.units.requests[host], this.requestPrice[host]];
    this.requestPrice[host] =
      cone === null
        ? fill(steps, PASSES[capacity], alpha, bound, price)
        : cone.fill(steps, from, alpha, bound, price);
    for (let v = from; v < to; v++) x[v] = steps.x[v - from];
  }

  /** Returns the squared change of z. */
  private zStep(host: number): number {
    const { start, completions, capacity } = this.problem;
    const { steps, x, z, u, isLog } = this;
    const force = 2 * this.units.beta;
    const [from, to] = [start[host], start[host + 1]];
    for (let v = from; v < to; v++) {
      const j = v - from;
      const rho = this.rho[v];
      const coupled = isLog ? Math.log(completions[v]) + x[v] : completions[v] * x[v];
      steps.w[j] = force;
      steps.a[j] = rho;
      steps.b[j] = -(u[v] + rho * coupled);
      steps.x[j] = z[v];
    }
    steps.length = to - from;
    const [bound, price] = [this.units.completions[host], this.completionPrice[host]];
    this.completionPrice[host] = fill(steps, PASSES[capacity], 3, bound, price);
    let change = 0;
    for (let v = from; v < to; v++) {
      const value = steps.x[v - from];
      change += (value - z[v]) ** 2;
      z[v] = value;
    }
    return change;
  }

  /** Returns the squared residual. */
  private uStep(host: number): number {
    const { start, completions } = this.problem;
    const { x, z, u, rho, isLog } = this;
    let residual = 0;
    for (let v = start[host]; v < start[host + 1]; v++) {
      const r = (isLog ? Math.log(completions[v]) + x[v] : completions[v] * x[v]) - z[v];
      u[v] += rho[v] * r;
      residual += r * r;
    }
    return residual;
  }

  rates(into: Float64Array): Float64Array {
    const { x, isLog } = this;
    const { rate } = this.units;
    for (let v = 0; v < x.length; v++) into[v] = (isLog ? Math.exp(x[v]) : x[v]) * rate;
    return into;
  }
}
