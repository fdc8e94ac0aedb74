/**
 * One host's part of Algorithm 2 (solver/two-sided.ts): the variables of the applications that send here, and the rows of
 * the completions that arise here. What other hosts send and ask for comes from outside. Rates are in millions per second,
 * on all hosts, because a penalty has the unit of a rate.
 */
import { fill, LEAST_RATE, PASSES } from '../solver/fill.ts';
import {
  Curves,
  completionCurvature,
  computePenalties,
  MOST_CHANGE,
  RENEWALS,
  requestCurvature,
} from '../solver/penalty.ts';
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
} from '../solver/row-steps.ts';
import { Steps } from '../solver/steps.ts';
import { type Ask, type Demand, mostSent, type Pull, type Terms } from './model.ts';

/** Penalties that differ by this factor are renewed before rates count as converged. */
const FAR_OFF = 2;
/** Stands for this host among peers. */
const OWN = -1;
const NO_ASK: Ask = { asked: 0, rho: 0, curvature: 0 };

/** The variables and rows of one host. It changes only in values; for others, there is a new one. */
export class HostSolver {
  readonly terms: Terms;
  readonly demands: readonly Demand[];
  /** Norms of both residuals, and the largest relative change of x and z, of the last round. */
  primal = Number.POSITIVE_INFINITY;
  dual = Number.POSITIVE_INFINITY;
  drift = Number.POSITIVE_INFINITY;
  /** Completed rounds. */
  iteration = 0;
  /** The keys of the rows, and their numbers. */
  readonly rowKeys: readonly number[];
  private readonly rowOf: ReadonlyMap<number, number>;
  private readonly variableOf: ReadonlyMap<number, number>;
  private readonly variables: VariableColumns;
  private readonly rows: RowColumns;
  /** Per entry: the peer, OWN for the own row, which is the first of a variable; and the curvature of its row. */
  private readonly peers: Int32Array;
  private readonly curvatures: Float64Array;
  /** Per row: the variable of this host, or -1; what other hosts cause; its curvature. */
  private readonly ownOf: Int32Array;
  private readonly pulls: readonly (readonly Pull[])[];
  private readonly rowCurvatures: Float64Array;
  private readonly steps: Steps;
  private readonly curves: Curves;
  private requestPrice = 0;
  private completionPrice = 0;

  /**
   * @param pulls what other hosts cause here; the solver reads their values at each step
   * @param before the solver that this one continues
   */
  constructor(
    terms: Terms,
    demands: readonly Demand[],
    pulls: Iterable<Pull>,
    before: HostSolver | null = null,
  ) {
    this.terms = terms;
    this.demands = demands;
    const byKey = new Map<number, Pull[]>(demands.map(({ key }) => [key, []]));
    for (const pull of pulls) byKey.set(pull.key, [...(byKey.get(pull.key) ?? []), pull]);
    this.rowKeys = [...byKey.keys()];
    this.pulls = [...byKey.values()];
    this.rowOf = new Map(this.rowKeys.map((key, r) => [key, r]));
    this.variableOf = new Map(demands.map(({ key }, v) => [key, v]));
    this.ownOf = Int32Array.from(this.rowKeys, (key) => this.variableOf.get(key) ?? -1);
    const column = (length: number) => new Float64Array(length);
    const [many, rows] = [demands.length, this.rowKeys.length];
    const entries = demands.reduce((sum, { to }) => sum + 1 + to.size, 0);
    this.peers = new Int32Array(entries).fill(OWN);
    this.curvatures = column(entries);
    this.rowCurvatures = column(rows);
    this.variables = {
      ...{ x: column(many), weights: Float64Array.from(demands, ({ weight }) => weight) },
      ...{ entryStart: new Int32Array(many + 1), per: column(entries) },
      ...{ asked: column(entries), askedRho: column(entries) },
    };
    this.rows = {
      ...{ z: column(rows), sum: column(rows), u: column(rows), rho: column(rows) },
      sharers: Float64Array.from(this.pulls, (all, r) => all.length + (this.ownOf[r] >= 0 ? 1 : 0)),
    };
    this.steps = new Steps(Math.max(many, rows));
    this.curves = new Curves(rows);
    this.requestPrice = before?.requestPrice ?? 0;
    this.completionPrice = before?.completionPrice ?? 0;
    this.beginVariables(before);
    this.beginRows(before);
  }

  /** Applications that are new begin with equal shares, at rows that ask for nothing. */
  private beginVariables(before: HostSolver | null): void {
    const { demands, peers, curvatures, terms } = this;
    const { x, entryStart, per, asked, askedRho } = this.variables;
    let e = 0;
    for (const [v, { key, own, to }] of demands.entries()) {
      entryStart[v] = e;
      x[v] = before?.rateOf(key) ?? terms.requests / demands.length;
      per[e++] = own;
      for (const [peer, share] of to) {
        const known = before?.askedOf(key, peer) ?? NO_ASK;
        [peers[e], per[e], curvatures[e]] = [peer, share, known.curvature];
        [asked[e], askedRho[e]] = [known.asked, known.rho];
        e++;
      }
    }
    entryStart[demands.length] = e;
  }

  /** Rows that are new begin with the completions that their senders cause, and the dual of these. */
  private beginRows(before: HostSolver | null): void {
    const { rows, rowKeys, terms } = this;
    const leastZ = (1e-3 * Math.min(terms.requests, terms.completions)) / Math.max(1, rowKeys.length);
    for (const [r, key] of rowKeys.entries()) {
      const was = before?.rowOf.get(key);
      if (was === undefined) continue;
      rows.z[r] = before!.rows.z[was];
      rows.rho[r] = before!.rows.rho[was];
      rows.u[r] = before!.rows.u[was] * (rows.sharers[r] / before!.rows.sharers[was]);
    }
    this.collect();
    const isNew = rows.rho.map((rho) => (rho === 0 ? 1 : 0));
    this.renewPenalties(MOST_CHANGE);
    for (let r = 0; r < rowKeys.length; r++) {
      if (isNew[r] === 0) continue;
      rows.z[r] = Math.max(leastZ, rows.sum[r]);
      if (terms.beta > 0) rows.u[r] = dualAt(rows, r, terms.beta);
    }
  }

  private askedOf(key: number, peer: number): Ask | undefined {
    const e = this.entryOf(key, peer);
    if (e < 0) return undefined;
    const { asked, askedRho } = this.variables;
    return { asked: asked[e], rho: askedRho[e], curvature: this.curvatures[e] };
  }

  private entryOf(key: number, peer: number): number {
    const v = this.variableOf.get(key);
    if (v === undefined) return -1;
    const { entryStart } = this.variables;
    for (let e = entryStart[v] + 1; e < entryStart[v + 1]; e++) if (this.peers[e] === peer) return e;
    return -1;
  }

  /** The requests of an application, in millions per second; undefined: it is not in use here. */
  rateOf(key: number): number | undefined {
    const v = this.variableOf.get(key);
    return v === undefined ? undefined : this.variables.x[v];
  }

  /** The completions of an application here, in millions per second; undefined: it has none. */
  completionsOf(key: number): number | undefined {
    const r = this.rowOf.get(key);
    return r === undefined ? undefined : this.rows.z[r];
  }

  /** The completions that the host can poll, divided by those of all applications here; at least 1. */
  get spareCompletions(): number {
    const { rows, rowKeys, terms } = this;
    let sum = 0;
    for (let r = 0; r < rowKeys.length; r++) sum += rows.z[r];
    return sum > 0 ? Math.max(1, terms.completions / sum) : 1;
  }

  /** Whether this host could issue more requests, so that only completions hold them back. */
  get isHeldBack(): boolean {
    return this.requestPrice === 0;
  }

  /** A peer's row has asked for something. Ignored unless the application sends there. */
  ask(key: number, peer: number, { asked, rho, curvature }: Ask): void {
    const e = this.entryOf(key, peer);
    if (e < 0) return;
    this.variables.asked[e] = asked;
    this.variables.askedRho[e] = rho;
    this.curvatures[e] = curvature;
  }

  /** What a row asks of the sender of a pull; undefined: the pull is newer than this solver. */
  answer(pull: Pull): Ask | undefined {
    const r = this.rowOf.get(pull.key);
    if (r === undefined || !this.pulls[r].includes(pull)) return undefined;
    return { asked: askOf(this.rows, r, pull.sent), rho: this.rows.rho[r], curvature: this.rowCurvatures[r] };
  }

  /** The x-step. */
  stepRequests(): void {
    const { variables, rows, steps, terms, demands } = this;
    const { x, entryStart, per, asked, askedRho } = variables;
    if (RENEWALS.includes(this.iteration)) this.renewPenalties(MOST_CHANGE);
    for (const [v, { key }] of demands.entries()) {
      const [e, r] = [entryStart[v], this.rowOf.get(key)!];
      asked[e] = askOf(rows, r, per[e] * x[v]);
      askedRho[e] = rows.rho[r];
    }
    loadRequests(steps, variables, 0, demands.length, 1);
    this.requestPrice = fill(steps, PASSES.linear, terms.alpha, terms.requests, this.requestPrice);
    this.drift = 0;
    for (let v = 0; v < demands.length; v++) {
      this.drift = Math.max(this.drift, Math.abs(steps.x[v] - x[v]) / Math.max(LEAST_RATE, steps.x[v]));
      x[v] = steps.x[v];
    }
  }

  /** The z-step and the U-step. */
  stepRows(): void {
    const { rows, steps, terms } = this;
    const { length } = this.rowKeys;
    this.collect();
    loadCompletions(steps, rows, 0, length, terms.beta);
    this.completionPrice = fill(steps, PASSES.linear, 3, terms.completions, this.completionPrice);
    this.dual = Math.sqrt(takeCompletions(steps, rows, 0, length));
    this.primal = Math.sqrt(stepDuals(rows, 0, length));
    this.iteration++;
  }

  /** The rates will change again: penalties are renewed as at the beginning. */
  restart(): void {
    this.iteration = 0;
  }

  /**
   * Computes the penalties again. With penalties that are far too large, rates change so slowly that they seem to have
   * converged. Returns whether they were.
   */
  refit(): boolean {
    const before = this.rows.rho.slice();
    this.renewPenalties(MOST_CHANGE);
    return this.rows.rho.some((rho, r) => Math.max(rho / before[r], before[r] / rho) > FAR_OFF);
  }

  /** The residuals relative to the completions here. */
  get residual(): number {
    const all = this.rows.sum.reduce((sum, one) => sum + one, 0);
    return Math.max(this.drift, (this.primal + this.dual) / Math.max(LEAST_RATE, all));
  }

  private collect(): void {
    const { rows, pulls, ownOf } = this;
    const { x, entryStart, per } = this.variables;
    for (let r = 0; r < pulls.length; r++) {
      const v = ownOf[r];
      let sum = v >= 0 ? per[entryStart[v]] * x[v] : 0;
      for (const pull of pulls[r]) sum += this.counted(r, pull);
      rows.sum[r] = sum;
    }
  }

  /** What a pull counts: no more than its sender would cause at the price of the row, whatever it reports. */
  private counted(r: number, pull: Pull): number {
    const { rho, u, sharers } = this.rows;
    return mostSent(pull, (rho[r] * u[r]) / sharers[r], this.terms);
  }

  /** The curvature that a variable's own utility has, and that of all its rows. */
  private curvaturesOf(v: number): { own: number; all: number } {
    const { x, weights, entryStart, per } = this.variables;
    const own = requestCurvature(weights[v], Math.max(x[v], LEAST_RATE), this.terms.alpha, false);
    let all = own;
    for (let e = entryStart[v]; e < entryStart[v + 1]; e++) all += this.curvatures[e] * per[e] * per[e];
    return { own, all };
  }

  /** What this host reports to a peer, which has one entry for each application that sends there. */
  reportsTo(peer: number): Pull[] {
    const { x, entryStart, per } = this.variables;
    return this.demands.flatMap(({ key, weight, to }, v) => {
      if (!to.has(peer)) return [];
      const { own, all } = this.curvaturesOf(v);
      let e = entryStart[v];
      while (this.peers[e] !== peer) e++;
      const others = Math.max(0, all - own - this.curvatures[e] * per[e] * per[e]);
      return [{ key, sent: per[e] * x[v], weight, per: per[e], others }];
    });
  }

  /** Computes the penalties of all rows from the present rates. */
  private renewPenalties(most: number): void {
    const { curves, rows, rowCurvatures, pulls, ownOf, terms } = this;
    const { alpha, beta } = terms;
    const { length } = this.rowKeys;
    for (let r = 0; r < length; r++)
      rowCurvatures[r] = beta === 0 ? 0 : completionCurvature(beta, Math.max(rows.sum[r], LEAST_RATE), false);
    this.takeOwnCurvatures();
    for (let r = 0; r < length; r++) {
      let [requests, held] = [0, 0];
      const add = (square: number, own: number, others: number) => {
        requests += square / own;
        held += givesWay(square, own, others);
      };
      if (ownOf[r] >= 0) {
        const { own, all } = this.curvaturesOf(ownOf[r]);
        const square = this.demands[ownOf[r]].own ** 2;
        add(square, own, all - own - rowCurvatures[r] * square);
      }
      for (const pull of pulls[r]) {
        const { weight, per, others } = pull;
        const x = Math.max(this.counted(r, pull) / per, LEAST_RATE);
        add(per * per, requestCurvature(weight, x, alpha, false), others);
      }
      const n = rows.sharers[r];
      [curves.requests[r], curves.held[r], curves.completions[r]] = [
        n / requests,
        n / held,
        n * rowCurvatures[r],
      ];
    }
    curves.length = length;
    curves.completionsBind = this.completionPrice > 0;
    // A rate that several rows have in common is bound to them as to a capacity.
    curves.requestsBind = true;
    computePenalties(curves, 'row', 'linear');
    takePenalties(curves, rows, 0, length, most);
  }

  private takeOwnCurvatures(): void {
    const { entryStart } = this.variables;
    for (const [v, { key }] of this.demands.entries())
      this.curvatures[entryStart[v]] = this.rowCurvatures[this.rowOf.get(key)!];
  }
}
