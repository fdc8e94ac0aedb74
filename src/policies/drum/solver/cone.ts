/** The x-step under the cone of preemption: sum(guaranteed x) + ||preemptible x|| fits the capacity. */

import type { Preemption } from './problem.ts';
import { rateRoot } from './roots.ts';
import type { Steps } from './steps.ts';

const MOST_HALVINGS = 200;
const CLOSE = 1e-12;

/**
 * At a price lambda, lambda ||q x|| is the least of lambda (||q x||^2 / 2t + t / 2) over t, reached at t = ||q x||: for
 * each t the variables are separate again. Both t and lambda are found by bisection, because both conditions are
 * monotone.
 */
export class Cone {
  private readonly preemption: Preemption;

  constructor(preemption: Preemption) {
    this.preemption = preemption;
  }

  /** As fill() of fill.ts; `from` is the first variable of the host. */
  fill(steps: Steps, from: number, alpha: number, capacity: number, lambda: number): number {
    const excess = (price: number) => this.usedAt(steps, from, alpha, price) - capacity;
    if (excess(0) <= 0) return 0;
    let [low, high] = [0, lambda > 0 ? lambda : steps.a[0]];
    while (excess(high) > 0) {
      low = high;
      high *= 2;
    }
    for (let i = 0; i < MOST_HALVINGS && high - low > CLOSE * high; i++) {
      const middle = (low + high) / 2;
      if (excess(middle) > 0) low = middle;
      else high = middle;
    }
    excess(high);
    return high;
  }

  /** The steps at a price, and what they take of the capacity. */
  private usedAt(steps: Steps, from: number, alpha: number, price: number): number {
    const { guaranteed, preemptible } = this.preemption;
    let norm = this.solve(steps, from, alpha, price, Number.POSITIVE_INFINITY);
    if (price > 0 && norm > 0) {
      let [low, high] = [0, norm];
      for (let i = 0; i < MOST_HALVINGS && high - low > CLOSE * high; i++) {
        const middle = (low + high) / 2;
        if (this.solve(steps, from, alpha, price, middle) > middle) low = middle;
        else high = middle;
      }
      norm = high;
      this.solve(steps, from, alpha, price, norm);
    }
    let [sum, square] = [0, 0];
    for (let j = 0; j < steps.length; j++) {
      sum += guaranteed[from + j] * steps.x[j];
      square += (preemptible[from + j] * steps.x[j]) ** 2;
    }
    return sum + Math.sqrt(square);
  }

  /** Solves the steps for one t; returns the norm of q x, and exceeds t up to one t only. */
  private solve(steps: Steps, from: number, alpha: number, price: number, t: number): number {
    const { guaranteed, preemptible } = this.preemption;
    const { w, a, b, x, length } = steps;
    let square = 0;
    for (let j = 0; j < length; j++) {
      const q = preemptible[from + j];
      const bending = a[j] + (price * q * q) / t;
      x[j] = rateRoot(alpha, w[j], bending, b[j] + price * guaranteed[from + j], x[j] > 0 ? x[j] : 1);
      square += (q * x[j]) ** 2;
    }
    return Math.sqrt(square);
  }
}
