/**
 * The allocation problem of DRUM: rates of work requests and of completions of every application on every host. A
 * variable is one application on one host; the variables of a host are adjacent.
 *
 *   maximise  sum w x^(1 - alpha) / (1 - alpha)  -  beta sum z^-2        (alpha = 1: sum w log x)
 *   where     each host's x fit its request rate, its z fit its completion rate, and z follows from x
 */
import { ProblemError } from '../../../verbs/errors.ts';

/**
 * How the rates of a host fit its capacity. `linear`: their sum is at most the capacity. `logsum` and `logdomain`: their
 * product is at most that of equal shares, iterated in the rates as in the paper, or in their logarithms.
 */
export type Capacity = 'linear' | 'logsum' | 'logdomain';

/** Where requests cause completions, for two-sided verbs. The entries of variable v are start[v] to start[v + 1]. */
export interface Traffic {
  /** One entry per variable, and the number of all entries. */
  readonly start: Int32Array;
  /** The host on which the completions arise, under the same application number. */
  readonly host: Int32Array;
  /** Completions there per request of the variable. */
  readonly perRequest: Float64Array;
}

/**
 * The second-order cone of preemption: sum(guaranteed x) + ||preemptible x||_2 is at most the request rate. One value per
 * variable. 1 and 0 mean that nothing can be preempted.
 */
export interface Preemption {
  readonly guaranteed: Float64Array;
  readonly preemptible: Float64Array;
}

/** All rates have one unit, which the caller chooses. The solution scales with it; beta must match it. */
export interface DrumProblem {
  readonly hosts: number;
  /** The first variable of each host, and the number of all variables. */
  readonly start: Int32Array;
  /** The number of the application of each variable. It is the same on all hosts. */
  readonly app: Int32Array;
  /** Fairness of request rates: 1/2, 1 (proportional), 2 (minimum delay), and towards max-min beyond. */
  readonly alpha: number;
  /** The weight of fast completions. */
  readonly beta: number;
  readonly capacity: Capacity;
  /** Per variable. */
  readonly weights: Float64Array;
  /** Completions per request on the own host, per variable. */
  readonly completions: Float64Array;
  /** Requests that a host can issue per unit of time. */
  readonly requestRate: Float64Array;
  /** Completions that a host can poll per unit of time. */
  readonly completionRate: Float64Array;
  /** Absent for one-sided verbs, whose completions arise on the own host alone. */
  readonly traffic?: Traffic;
  readonly preemption?: Preemption;
}

/** The most hosts to which an application sends, unless the caller allows more. */
export const MOST_DESTINATIONS = 8;
/** Beyond, the iteration can stall; rates are close to max-min there: they differ by the 16th root of the weights. */
export const MOST_ALPHA = 16;

const fail = (reason: string, what: string): never => {
  throw new ProblemError(`${reason}: ${what}`);
};

function requireColumn(
  name: string,
  column: Float64Array,
  length: number,
  least: 'above 0' | 'of at least 0',
) {
  if (column.length !== length)
    fail('invalid', `${name} has ${column.length} values; ${length} are required`);
  for (let i = 0; i < length; i++) {
    const value = column[i];
    if (Number.isFinite(value) && (value > 0 || (value === 0 && least === 'of at least 0'))) continue;
    if (value === 0 && name.endsWith('Rate'))
      fail('infeasible', `${name} of host ${i} is 0; leave the host out`);
    fail('invalid', `${name}[${i}] is ${value}; it must be a number ${least}`);
  }
}

/** @throws ProblemError */
function requireUtilities({ alpha, beta, capacity, traffic, preemption }: DrumProblem): void {
  if (!(alpha > 0 && alpha <= MOST_ALPHA))
    fail('invalid', `alpha is ${alpha}; it must be above 0 and at most ${MOST_ALPHA}`);
  if (!(beta >= 0 && beta < Number.POSITIVE_INFINITY))
    fail('invalid', `beta is ${beta}; it must be a number of at least 0`);
  if (!['linear', 'logsum', 'logdomain'].includes(capacity))
    fail('invalid', `capacity is '${capacity}'; choose linear, logsum or logdomain`);
  if (capacity === 'linear') return;
  if (alpha < 1)
    fail(
      'unbounded',
      `with capacity '${capacity}' and alpha below 1, rates of t and 1/t gain without limit; use 'linear'`,
    );
  if (alpha === 1 && beta === 0)
    fail(
      'unbounded',
      `with capacity '${capacity}', alpha = 1 and beta = 0, the largest weight takes everything; use 'linear'`,
    );
  if (preemption !== undefined)
    fail('not convex', `preemption requires capacity 'linear', got '${capacity}'`);
  if (traffic !== undefined && capacity === 'logdomain')
    fail(
      'not convex',
      "completions of several hosts have no sum in logarithms; use capacity 'linear' or 'logsum' with traffic",
    );
}

function requireTraffic(
  { start, host, perRequest }: Traffic,
  hosts: number,
  variables: number,
  mostDestinations: number,
): void {
  if (start.length !== variables + 1 || start[0] !== 0 || start[variables] !== host.length)
    fail('invalid', 'traffic.start must have one entry per variable, and the number of entries');
  requireColumn('traffic.perRequest', perRequest, host.length, 'above 0');
  for (let v = 0; v < variables; v++) {
    const many = start[v + 1] - start[v];
    if (many < 0) fail('invalid', `traffic.start of variable ${v + 1} is below its predecessor`);
    if (many > mostDestinations)
      fail('invalid', `variable ${v} sends to ${many} hosts; at most ${mostDestinations} are allowed`);
  }
  for (const one of host)
    if (!(one >= 0 && one < hosts)) fail('invalid', `traffic names host ${one}; there are ${hosts} hosts`);
}

/**
 * Checks what the solvers rely on.
 * @param mostDestinations the largest number of hosts to which an application may send
 * @throws ProblemError with the reason: invalid, infeasible, unbounded or not convex
 */
export function requireProblem(problem: DrumProblem, mostDestinations = MOST_DESTINATIONS): void {
  const { hosts, start, app, weights, completions, requestRate, completionRate } = problem;
  const variables = app.length;
  requireUtilities(problem);
  if (!(hosts >= 1) || start.length !== hosts + 1 || start[0] !== 0 || start[hosts] !== variables)
    fail('invalid', 'start must have one entry per host, and the number of variables');
  for (let i = 0; i < hosts; i++) {
    if (start[i + 1] < start[i]) fail('invalid', `start of host ${i + 1} is below its predecessor`);
    requireDistinct(app, start[i], start[i + 1], i);
  }
  requireColumn('weights', weights, variables, 'above 0');
  requireColumn('completions', completions, variables, 'above 0');
  requireColumn('requestRate', requestRate, hosts, 'above 0');
  requireColumn('completionRate', completionRate, hosts, 'above 0');
  if (problem.traffic !== undefined) requireTraffic(problem.traffic, hosts, variables, mostDestinations);
  if (problem.preemption === undefined) return;
  requireColumn('preemption.guaranteed', problem.preemption.guaranteed, variables, 'above 0');
  requireColumn('preemption.preemptible', problem.preemption.preemptible, variables, 'of at least 0');
}

function requireDistinct(app: Int32Array, from: number, to: number, host: number): void {
  for (let v = from + 1; v < to; v++) {
    if (app[v] <= app[v - 1]) fail('invalid', `the application numbers of host ${host} must ascend`);
  }
}

/** The bound on the sum of logarithms: equal rates of `members` applications meet the capacity exactly. */
export function logBound(rate: number, members: number): number {
  return members * Math.log(rate / members);
}
