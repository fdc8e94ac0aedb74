/** What one host's part of Algorithm 2 consists of, and how much of what another host reports counts. */
import { inversePower } from '../solver/roots.ts';

/** The utilities, and the rates that the host can issue and poll, in millions per second. */
export interface Terms {
  readonly alpha: number;
  readonly beta: number;
  readonly requests: number;
  readonly completions: number;
}

/** An application in use on this host. `key` identifies it on all hosts. */
export interface Demand {
  readonly key: number;
  readonly weight: number;
  /** Completions per request on this host. */
  readonly own: number;
  /** The same at peers, by the peer's number. */
  readonly to: ReadonlyMap<number, number>;
}

/** What an application of another host causes here, as that host reports it. */
export interface Pull {
  readonly key: number;
  /** Completions, in millions per second. */
  sent: number;
  weight: number;
  /** Completions per request. */
  per: number;
  /** The curvature that other rows of the same requests add. */
  others: number;
}

/** What a row asks of a sender. */
export interface Ask {
  readonly asked: number;
  readonly rho: number;
  /** The curvature of the row's utility. */
  readonly curvature: number;
}

/** The excess that a sender may report while rates change, so that it is not limited at its optimum. */
const SLACK = 1.001;
const HALVINGS = 60;
/** A sender counts with at most this multiple of the completion rate, so that one wrong message does no lasting harm. */
const MOST_OVERLOAD = 4;

/**
 * The completions that a pull counts. At the optimum, the gain of a request is at least what its completions cost in the
 * row: w x^-alpha + (gain of fast completions) >= p v. A sender that reports more than fits this would take from others what
 * their weights entitle them to.
 * @param price of a completion in the row, v; other hosts are not limited by prices of 0 or less
 */
export function mostSent({ sent: reported, weight, per }: Pull, price: number, terms: Terms): number {
  const { alpha, beta } = terms;
  const sent = Math.min(reported, MOST_OVERLOAD * terms.completions);
  const cost = per * price;
  // Completions that a request causes elsewhere are as fast as the requests, at least.
  const gain = (x: number) => weight * inversePower(x, alpha) + (beta > 0 ? (4 * beta) / (x * x * x) : 0);
  const x = sent / per / SLACK;
  if (!(cost > 0) || gain(x) >= cost) return sent;
  let [low, high] = [0, x];
  for (let i = 0; i < HALVINGS; i++) {
    const middle = (low + high) / 2;
    if (gain(middle) >= cost) low = middle;
    else high = middle;
  }
  return low * per * SLACK;
}
