/** Computations: what a claim or figure measures without a device. They run in the pool, and are cached, like mixtures. */
import { convergence } from '../drum/convergence.ts';

/** Results of a computation: numbers, or curves. */
export type Values = Readonly<Record<string, number | readonly number[]>>;

/** Options of a computation, besides the seed. */
export type ComputationOptions = Readonly<Record<string, number | string>>;

/** A computation with its options. The same two and the same seed give the same values. */
export interface Computation {
  readonly name: ComputationName;
  readonly options: ComputationOptions;
}

const COMPUTATIONS = { convergence } as const satisfies Record<
  string,
  (options: ComputationOptions, seed: number) => Values
>;

/** Names of all computations. */
export type ComputationName = keyof typeof COMPUTATIONS;

/** What a worker is sent. */
export interface ComputationSpec extends Computation {
  readonly seed: number;
}

/** Runs a computation. @throws ProblemError, or whatever else the computation throws */
export function compute({ name, options, seed }: ComputationSpec): Values {
  return COMPUTATIONS[name](options, seed);
}

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
