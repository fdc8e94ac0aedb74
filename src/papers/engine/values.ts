/** What computations take and give. */

/** Results of a computation: numbers, or curves. */
export type Values = Readonly<Record<string, number | readonly number[]>>;

/** Options of a computation, besides the seed. */
export type ComputationOptions = Readonly<Record<string, number | string>>;

/** The values of the same curve at a position; NaN if the computation has no such curve, or ended before. */
export function at(values: Values, curve: string, index: number): number {
  const found = values[curve];
  return typeof found === 'object' && index < found.length ? found[index] : Number.NaN;
}

/** A number of a computation; NaN if it has no such number. */
export function number(values: Values, name: string): number {
  const found = values[name];
  return typeof found === 'number' ? found : Number.NaN;
}
