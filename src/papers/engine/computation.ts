/** Computations: what a claim or figure measures without a device. They run in the pool, and are cached, like mixtures. */
import { convergence } from '../drum/convergence.ts';
import type { ComputationOptions, Values } from './values.ts';

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
