/** Rates of the groups and queue pairs of a tenant, which a coordinator elsewhere gives to its contexts. */

/** A rate in Gbit/s on the wire, and the number of contexts that share it in equal parts. */
export interface TargetRate {
  readonly gbps: number;
  readonly sharers: number;
}

/** Rates by target (src/verbs/rate-targets.ts); the same object until they change. */
export type TargetRates = ReadonlyMap<string, TargetRate>;

/** As if no rates were given. */
export const NO_RATES: TargetRates = new Map();
