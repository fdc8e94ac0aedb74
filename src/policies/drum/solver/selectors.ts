/**
 * Selects the k applications of a host that are served in an epoch. The selection is outside the iteration: the largest of
 * several concave utilities is not concave, so that the problem is convex for a fixed selection only. Ranks do not depend
 * on rates, which would starve whatever is not selected.
 */
import { ProblemError } from '../../../verbs/errors.ts';

/** What a selector knows of the applications of a host. */
export interface Candidates {
  readonly weights: ArrayLike<number>;
  /** The number of the epoch or request at which an application became ready; for `fifo`. */
  readonly arrivals: ArrayLike<number>;
  /** Bytes or requests that wait; for `smallest`. */
  readonly remaining: ArrayLike<number>;
}

/** `weight`: by weight and waiting time. `fifo`: by arrival. `smallest`: the smallest job first. */
export type SelectorName = 'weight' | 'fifo' | 'smallest';

/**
 * Selects epoch by epoch. An application that was not selected ages: its rank is multiplied by 1 plus the epochs that it
 * has waited, so that a weight of w waits for about w' / w epochs behind a weight of w'. In `fifo` and `smallest`, one that
 * has waited for `mostWaits` epochs goes first.
 */
export class Selector {
  /** Epochs since each application was served. */
  readonly waited: Int32Array;
  private readonly name: SelectorName;
  private readonly most: number;
  private readonly mostWaits: number;
  private readonly order: Int32Array;

  /**
   * @param k the applications that are served at a time
   * @throws ProblemError for k below 1
   */
  constructor(name: SelectorName, applications: number, k: number, mostWaits = 2) {
    if (!(Number.isInteger(k) && k >= 1))
      throw new ProblemError(`invalid: k is ${k}; it must be a whole number of at least 1`);
    this.name = name;
    this.most = Math.min(k, applications);
    this.mostWaits = mostWaits;
    this.waited = new Int32Array(applications);
    this.order = Int32Array.from({ length: applications }, (_, j) => j);
  }

  /** The selected applications, in ascending order. */
  next(candidates: Candidates): Int32Array {
    const { waited, order, most } = this;
    order.sort(
      (a, b) => this.rank(candidates, b) - this.rank(candidates, a) || waited[b] - waited[a] || a - b,
    );
    const chosen = order.slice(0, most).sort();
    for (let j = 0; j < waited.length; j++) waited[j]++;
    for (const j of chosen) waited[j] = 0;
    return chosen;
  }

  private rank({ weights, arrivals, remaining }: Candidates, j: number): number {
    if (this.name === 'weight') return weights[j] * (1 + this.waited[j]);
    if (this.waited[j] >= this.mostWaits) return this.waited[j];
    return this.name === 'fifo' ? -1 - arrivals[j] : -1 - remaining[j];
  }
}
