/** What one host's part of Algorithm 2 consists of. */

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
  readonly bend: number;
}
