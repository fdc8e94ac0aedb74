/** The clock and the statistics of the benchmarks. */

/** CLOCK_MONOTONIC in nanoseconds, which all processes of a host share. */
export function nowNs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1e9 + nanoseconds;
}

/** The quantile at `part` (0 to 1). */
export function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
}

export const p50 = (values: readonly number[]) => quantile(values, 0.5);
export const p99 = (values: readonly number[]) => quantile(values, 0.99);

/** Rounds to two decimals. */
export const rounded = (value: number) => Number(value.toFixed(2));
