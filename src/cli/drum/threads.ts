/**
 * Solves one problem in several threads, which share the state of the iteration and divide the hosts among each other. The
 * result is that of one thread, bit for bit, because every sum is taken by one thread in the same order.
 */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { Evaluator } from '../../policies/drum/solver/evaluate.ts';
import type { Iteration, IterationOptions, Memory } from '../../policies/drum/solver/one-sided.ts';
import type { DrumProblem } from '../../policies/drum/solver/problem.ts';
import {
  iterationOf,
  requireNumbers,
  run,
  type Solution,
  type SolveOptions,
  solve,
} from '../../policies/drum/solver/solve.ts';
import { Barrier, newBarrier } from './barrier.ts';

/** What a worker is told to do. */
export interface Share {
  readonly problem: DrumProblem;
  readonly options: Pick<IterationOptions, 'rho' | 'renews' | 'startAtZero' | 'mostDestinations'>;
  readonly columns: readonly Float64Array[];
  readonly barrier: SharedArrayBuffer;
  readonly threads: number;
  /** The hosts of this thread. */
  readonly first: number;
  readonly end: number;
}

/** Hands out columns that an iteration in another thread has begun. */
export function memoryOf(columns: readonly Float64Array[]): Memory {
  let next = 0;
  return { allocate: () => columns[next++], hasBegun: true };
}

/** One step by all threads. */
export function stepTogether(iteration: Iteration, barrier: Barrier, first: number, end: number): void {
  for (let stage = 0; stage < iteration.stages; stage++) {
    iteration.runStage(stage, first, end);
    barrier.pass();
  }
  iteration.finishStep();
}

/** The first host of each thread, and the number of hosts: parts with about as many variables each. */
export function divide({ hosts, start }: DrumProblem, threads: number): number[] {
  const bounds = [0];
  for (let host = 1; host < hosts && bounds.length < threads; host++)
    if (start[host] * threads >= start[hosts] * bounds.length) bounds.push(host);
  return [...bounds, hosts];
}

/**
 * As `solve`, without losses.
 * @throws ProblemError for problems without a solution
 */
export async function solveInThreads(
  problem: DrumProblem,
  options: Omit<SolveOptions, 'lost' | 'memory'>,
  threads: number,
): Promise<Solution> {
  const bounds = divide(problem, threads);
  const parts = bounds.length - 1;
  if (parts === 1) return solve(problem, options);
  // They load while this thread begins the iteration.
  const workers = bounds.slice(1, -1).map(() => new Worker(new URL('./solver-worker.js', import.meta.url)));
  try {
    const solution = await solveWith(workers, problem, options, bounds);
    return requireNumbers(solution);
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
}

/** Solves a problem in this thread and in workers that wait for their shares. */
async function solveWith(
  workers: readonly Worker[],
  problem: DrumProblem,
  options: Omit<SolveOptions, 'lost' | 'memory'>,
  bounds: readonly number[],
): Promise<Solution> {
  const columns: Float64Array[] = [];
  const allocate = (length: number) => {
    const column = new Float64Array(new SharedArrayBuffer(length * Float64Array.BYTES_PER_ELEMENT));
    columns.push(column);
    return column;
  };
  const iteration = iterationOf(problem, { ...options, memory: { allocate, hasBegun: false } });
  const shared = newBarrier();
  const threads = workers.length + 1;
  const barrier = new Barrier(shared, threads);
  const { rho, renews, startAtZero, mostDestinations } = options;
  for (const [i, worker] of workers.entries()) {
    const share: Share = {
      ...{ problem, options: { rho, renews, startAtZero, mostDestinations }, columns },
      ...{ barrier: shared, threads, first: bounds[i + 1], end: bounds[i + 2] },
    };
    worker.postMessage(share);
  }
  const ready = Promise.all(workers.map((worker) => once(worker, 'message')));
  const evaluator = new Evaluator(problem);
  // Errors of workers are thrown here; after that, all threads do the same.
  await ready;
  const step = () => {
    barrier.pass();
    stepTogether(iteration, barrier, 0, bounds[1]);
  };
  const solution = run(iteration, options, step, evaluator);
  barrier.stop();
  barrier.pass();
  return solution;
}
