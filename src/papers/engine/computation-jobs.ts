/** Runs computations of claims and figures in the pool of mixtures. */
import { type Outcome, Outcomes } from '../../mix/outcomes.ts';
import { type PoolOptions, runPool } from '../../mix/pool.ts';
import { type Computation, type ComputationSpec, compute } from './computation.ts';
import type { Values } from './values.ts';

/** One computation with one seed, identified by its content. */
export interface ComputationJob {
  readonly spec: ComputationSpec;
  readonly key: string;
  /** For people: the name, its options and the seed. */
  readonly command: string;
}

/** The outcomes of computations. */
export type ComputedOutcomes = Outcomes<ComputationJob, Values>;

/** No computations. */
export const NOTHING_COMPUTED: ComputedOutcomes = new Outcomes();

/** The job of a computation with this seed. */
export function computationJob({ name, options }: Computation, seed: number): ComputationJob {
  const sorted = Object.entries(options).sort(([a], [b]) => (a < b ? -1 : 1));
  const words = sorted.map(([option, value]) => `${option}=${value}`);
  return {
    spec: { name, options, seed },
    key: JSON.stringify([name, sorted, seed]),
    command: ['computation', name, ...words, `seed=${seed}`].join(' '),
  };
}

/** Runs one computation. Never throws: an error is an outcome. */
export async function runComputation(spec: ComputationSpec): Promise<Outcome<Values>> {
  try {
    return { result: compute(spec) };
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}

/** Runs each job once. @throws Error when a worker dies */
export function runComputations(
  jobs: readonly ComputationJob[],
  options: PoolOptions<Values>,
): Promise<ComputedOutcomes> {
  const byKey = new Map(jobs.map((job) => [job.key, job]));
  const worker = new URL('./computation-worker.js', import.meta.url);
  return runPool([...byKey.values()], options, { run: runComputation, worker });
}
