/**
 * The applications of one device: which of them are in use, which are served in this epoch, and the rates that the solver
 * gives those. Nothing here runs per request, except `needsNotice` and `isSeated`.
 */
import { fitColumn } from '../../shim/tables.ts';
import { ProblemError } from '../../verbs/errors.ts';
import { type DrumOptions, problemOf } from './options.ts';
import { Selector } from './solver/selectors.ts';
import { solve } from './solver/solve.ts';

/** The tolerance of rates, relative to a share, and the iterations after which the rates so far are used. */
const SOLVE = { tolerance: 1e-6, mostIterations: 200, trace: false };
/**
 * Words of an application, as a power of two: its weight, its rate in requests per second, its rate as a weight, and the
 * rate that an agent has given it.
 */
const BITS = 2;
const RATE = 1;
const SHARE = 2;
const GIVEN = 3;
/**
 * Bits of an application: it exists; it is in use; it has posted in this epoch; it is served; its rate has been solved; it
 * receives completions.
 */
const HERE = 1;
const ACTIVE = 2;
const USED = 4;
const SEATED = 8;
const SOLVED = 16;
const RECEIVES = 32;
const SERVED = ACTIVE | SEATED;
const IN_USE = ACTIVE | RECEIVES;

/** What the device carries, in requests of the shortest length, and in completions per second. */
export interface DeviceRates {
  readonly requestsPerS: number;
  readonly completionsPerS: number;
}

/** The applications of one device, by index of their entities. */
export class Applications {
  private options: DrumOptions;
  private device: DeviceRates;
  private states: Uint8Array = new Uint8Array(16);
  private words: Float64Array = new Float64Array(16 << BITS);
  /** By application: its place in the order of those that wait, and the epochs in a row without service. */
  private arrivals: Float64Array = new Float64Array(16);
  private waited: Int32Array = new Int32Array(16);
  private limit = 0;
  private arrived = 0;
  /** The number of applications, and of those that are in use and served. */
  private here = 0;
  private served = 0;
  /** Whether rates must be solved before the next request. */
  private isStale = false;

  constructor(options: DrumOptions, device: DeviceRates) {
    this.options = options;
    this.device = device;
  }

  /** The number of applications with queue pairs. */
  get count(): number {
    return this.here;
  }

  /**
   * Whether the ratios of rates depend on which applications are in use. If not, they are solved for all applications at
   * once, and need not be solved again when applications pause or take turns.
   */
  private get dependsOnOthers(): boolean {
    const { capacity, beta, agents } = this.options;
    return capacity !== 'linear' || beta > 0 || agents;
  }

  /** Which applications are in use and served has changed. */
  private membersChanged(): void {
    if (this.dependsOnOthers) this.isStale = true;
  }

  /** Changes options; rates are solved anew. */
  configure(options: DrumOptions, device: DeviceRates): void {
    this.options = options;
    this.device = device;
    this.isStale = true;
  }

  /** Whether an application exists. */
  has(app: number): boolean {
    return app < this.limit && (this.states[app] & HERE) !== 0;
  }

  /** An application has got its first queue pair. It is in use once it posts. */
  begin(app: number, weight: number): void {
    this.states = fitColumn(this.states, app);
    this.words = fitColumn(this.words, (app << BITS) + GIVEN);
    this.arrivals = fitColumn(this.arrivals, app);
    this.waited = fitColumn(this.waited, app);
    this.limit = Math.max(this.limit, app + 1);
    this.states[app] = this.options.topK === undefined ? HERE | SEATED : HERE;
    this.words.fill(0, app << BITS, (app + 1) << BITS);
    this.words[app << BITS] = weight;
    this.words[(app << BITS) + SHARE] = weight;
    this.waited[app] = 0;
    this.here++;
    if (!this.dependsOnOthers) this.isStale = true;
  }

  /** An application has lost its last queue pair. */
  end(app: number): void {
    if ((this.states[app] & SERVED) === SERVED) this.served--;
    if ((this.states[app] & SOLVED) !== 0) this.membersChanged();
    this.states[app] = 0;
    this.here--;
  }

  /** The weight of an application, which its labels set. */
  setWeight(app: number, weight: number): void {
    if (this.words[app << BITS] === weight) return;
    this.words[app << BITS] = weight;
    this.isStale = true;
  }

  /** The rate of an application as a weight; before the first solution, the weight of its label. */
  shareOf(app: number): number {
    return this.words[(app << BITS) + SHARE];
  }

  /** The rate of an application, in requests of the shortest length per second; 0: it is not in use. */
  rateOf(app: number): number {
    if (app >= this.limit || (this.states[app] & SERVED) !== SERVED) return 0;
    if (this.dependsOnOthers) return this.words[(app << BITS) + RATE];
    let sum = 0;
    for (let one = 0; one < this.limit; one++)
      if ((this.states[one] & SERVED) === SERVED) sum += this.shareOf(one);
    const { requestsPerS, completionsPerS } = this.device;
    return (this.shareOf(app) / sum) * Math.min(requestsPerS, completionsPerS);
  }

  /** The sum of the shares of the applications that send or receive. */
  get sharesInUse(): number {
    let sum = 0;
    for (let app = 0; app < this.limit; app++) if (this.isInUse(app)) sum += this.shareOf(app);
    return sum;
  }

  /** Whether an application sends or receives. */
  isInUse(app: number): boolean {
    return (this.states[app] & IN_USE) !== 0;
  }

  /** An application receives completions, or no longer does. Returns whether that has changed. */
  setReceives(app: number, receives: boolean): boolean {
    const before = this.states[app];
    this.states[app] = receives ? before | RECEIVES : before & ~RECEIVES;
    return this.states[app] !== before;
  }

  /** An agent has given an application a rate in requests per second. Rates are then not solved for here. */
  setGiven(app: number, perS: number): void {
    const at = (app << BITS) + GIVEN;
    if (this.words[at] === perS) return;
    this.words[at] = perS;
    this.isStale = true;
  }

  /** Whether an application sends. */
  isActive(app: number): boolean {
    return (this.states[app] & ACTIVE) !== 0;
  }

  /** Whether `notice` must be called for an application that posts. */
  needsNotice(app: number): boolean {
    return this.isStale || (this.states[app] & USED) === 0;
  }

  /** An application posts. Returns whether rates must be solved now; otherwise, the next epoch is early enough. */
  notice(app: number): boolean {
    const before = this.states[app];
    this.states[app] |= ACTIVE | USED;
    if ((before & ACTIVE) === 0) {
      this.arrivals[app] = ++this.arrived;
      if ((before & SEATED) !== 0) this.served++;
      else if (this.hasRoom) this.admit(app);
      if (this.words[(app << BITS) + RATE] === 0) this.membersChanged();
    }
    return this.isStale;
  }

  /** Whether an application is served in this epoch. */
  isSeated(app: number): boolean {
    return (this.states[app] & SEATED) !== 0;
  }

  /** Whether fewer applications are served than may be. */
  get hasRoom(): boolean {
    return this.served < (this.options.topK ?? Number.POSITIVE_INFINITY);
  }

  /** An application in use is served for the rest of the epoch. */
  admit(app: number): void {
    this.states[app] |= SEATED;
    this.served++;
    this.membersChanged();
  }

  /**
   * A new epoch begins: finds the applications in use, and selects those that are served.
   * @param backlogOf the requests of an application that wait
   * @returns whether any application is in use
   */
  next(backlogOf: (app: number) => number): boolean {
    const active: number[] = [];
    const remaining: number[] = [];
    for (let app = 0; app < this.limit; app++) {
      if ((this.states[app] & ACTIVE) === 0) continue;
      const backlog = backlogOf(app);
      if (backlog > 0 || (this.states[app] & USED) !== 0) {
        active.push(app);
        remaining.push(backlog);
      } else this.retire(app);
      this.states[app] &= ~USED;
    }
    if (this.options.topK !== undefined) this.select(active, remaining, this.options.topK);
    this.served = 0;
    for (let app = 0; app < this.limit; app++) {
      const isServed = (this.states[app] & SERVED) === SERVED;
      if (isServed) this.served++;
      if (isServed !== ((this.states[app] & SOLVED) !== 0)) this.membersChanged();
    }
    return active.length > 0;
  }

  /** An application is no longer in use. */
  private retire(app: number): void {
    this.states[app] &= ~ACTIVE;
    if (this.options.topK !== undefined) this.states[app] &= ~SEATED;
    this.waited[app] = 0;
  }

  /** Selects those of the applications in use that are served. Those that were served go behind all others. */
  private select(active: readonly number[], remaining: readonly number[], topK: number): void {
    const { arrivals, waited, states, words } = this;
    const before = active.filter((app) => (states[app] & SEATED) !== 0);
    for (const app of before.sort((a, b) => arrivals[a] - arrivals[b])) {
      arrivals[app] = ++this.arrived;
      states[app] &= ~SEATED;
    }
    if (active.length === 0) return;
    const { select } = this.options;
    // In order of arrival, no application has to go first for having waited long.
    const mostWaits = select === 'fifo' ? Number.POSITIVE_INFINITY : undefined;
    const selector = new Selector(select, active.length, topK, mostWaits);
    selector.waited.set(active.map((app) => waited[app]));
    const chosen = selector.next({
      weights: active.map((app) => words[app << BITS]),
      arrivals: active.map((app) => arrivals[app]),
      remaining,
    });
    for (const i of chosen) states[active[i]] |= SEATED;
    for (const [i, app] of active.entries()) waited[app] = selector.waited[i];
  }

  /** Solves for the rates, if anything has changed. Returns whether it has. */
  update(): boolean {
    if (!this.isStale) return false;
    this.isStale = false;
    const apps: number[] = [];
    const counted = this.dependsOnOthers ? SERVED : HERE;
    for (let app = 0; app < this.limit; app++) {
      this.states[app] &= ~SOLVED;
      if ((this.states[app] & counted) === counted) apps.push(app);
    }
    if (apps.length === 0) return false;
    const { words, device } = this;
    const weights = Float64Array.from(apps, (app) => words[app << BITS]);
    const perS = device.requestsPerS / apps.length;
    const rates = this.givenRates(apps, perS) ?? this.solve(weights);
    const sumOf = (values: Float64Array) => values.reduce((sum, value) => sum + value, 0);
    // Weights that are solved for at different times stay comparable.
    const scale = sumOf(weights) / sumOf(rates);
    for (const [i, app] of apps.entries()) {
      this.states[app] |= SOLVED;
      words[(app << BITS) + RATE] = rates[i] * perS;
      words[(app << BITS) + SHARE] = rates[i] * scale;
    }
    return true;
  }

  /** The rates that an agent has given, if it has for all applications, in units of an equal share. */
  private givenRates(apps: readonly number[], perS: number): Float64Array | null {
    const given = Float64Array.from(apps, (app) => this.words[(app << BITS) + GIVEN] / perS);
    return given.every((rate) => rate > 0) ? given : null;
  }

  /** Rates relative to an equal share; in proportion to the weights if the solver finds none in the range of numbers. */
  private solve(weights: Float64Array): Float64Array {
    const { requestsPerS, completionsPerS } = this.device;
    const completionShare = completionsPerS / requestsPerS;
    const most = weights.length * Math.min(1, completionShare);
    try {
      const { rates } = solve(problemOf(this.options, weights, completionShare), SOLVE);
      const sum = rates.reduce((a, b) => a + b, 0);
      // Rates whose product fits the device may still have too high a sum.
      const scale = Math.min(1, most / sum);
      if (sum < Number.POSITIVE_INFINITY && rates.every((rate) => rate * scale > 0))
        return rates.map((rate) => rate * scale);
    } catch (error) {
      if (!(error instanceof ProblemError)) throw error;
    }
    const sum = weights.reduce((a, b) => a + b, 0);
    return weights.map((weight) => (weight / sum) * most);
  }
}
