/**
 * Rates under dominant resource fairness (Ghodsi et al., NSDI 2011): each tenant gets as much of the resource of which it
 * needs the largest part as every other tenant, or as much as it can use. The shares are max-min fair: the largest part
 * that a tenant has of any resource grows equally for all tenants until they can use no more, or until a resource that
 * they need is exhausted.
 */

/** A tenant with equal requests. */
export interface Tenant {
  /** For each resource, the part of it that one request per unit of time takes. */
  readonly parts: readonly number[];
  /** The highest rate that the tenant can use, in requests per unit of time. Default: no limit. */
  readonly mostRate?: number;
}

/** Parts below this, which are errors of rounding, count as nothing. */
const NOTHING = 1e-12;

/** The rate of each tenant, in requests per unit of time. Each tenant needs at least one resource. */
export function dominantRates(tenants: readonly Tenant[]): number[] {
  const rates = tenants.map(() => 0);
  const left = tenants[0].parts.map(() => 1);
  let growing = tenants.map((_tenant, i) => i);
  while (growing.length > 0) {
    const slopes = growing.map((i) => 1 / Math.max(...tenants[i].parts));
    const grown = growthOf(tenants, growing, slopes, rates, left);
    for (const [n, i] of growing.entries()) {
      rates[i] += slopes[n] * grown;
      for (const [r, part] of tenants[i].parts.entries()) left[r] -= part * slopes[n] * grown;
    }
    growing = growing.filter((i) => {
      const { parts, mostRate = Number.POSITIVE_INFINITY } = tenants[i];
      return rates[i] < mostRate * (1 - NOTHING) && parts.every((part, r) => part === 0 || left[r] > NOTHING);
    });
  }
  return rates;
}

/** How far the dominant shares of these tenants can grow until one of them stops. `slopes`: their rates for a share of 1. */
function growthOf(
  tenants: readonly Tenant[],
  growing: readonly number[],
  slopes: readonly number[],
  rates: readonly number[],
  left: readonly number[],
): number {
  const untilMost = growing.map(
    (i, n) => ((tenants[i].mostRate ?? Number.POSITIVE_INFINITY) - rates[i]) / slopes[n],
  );
  const untilExhausted = left.map((rest, r) => {
    const taken = growing.reduce((sum, i, n) => sum + tenants[i].parts[r] * slopes[n], 0);
    return taken === 0 ? Number.POSITIVE_INFINITY : rest / taken;
  });
  return Math.min(...untilMost, ...untilExhausted);
}
