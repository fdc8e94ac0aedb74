/**
 * Measures how well threads share an iteration of DRUM's solver: the wall time of a solution in one thread and in one
 * thread per core, alternately. Prints JSON with all times and the efficiency: the ratio of the medians, divided by the
 * number of threads. The time of a run includes starting its threads. ISOVERBS_ROUNDS sets the number of rounds.
 */
import { availableParallelism } from 'node:os';
import { solveInThreads } from '#src/cli/drum/threads.ts';
import { networkOf } from '#src/papers/drum/networks.ts';

const SIZE = { hosts: 10_000, apps: 5000, isTwoSided: false, alpha: 1 };
const ITERATIONS = 100;
const ROUNDS = Number(process.env.ISOVERBS_ROUNDS ?? 7);
const THREADS = Math.max(2, availableParallelism());
const GOAL = 0.85;
/** A tolerance that is never reached, so that all iterations run. */
const LEAST = Number.MIN_VALUE;

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[values.length >> 1];

async function main(): Promise<void> {
  const problem = networkOf(SIZE, 1);
  const seconds: Record<number, number[]> = { 1: [], [THREADS]: [] };
  for (let round = 0; round < ROUNDS; round++) {
    for (const threads of [1, THREADS]) {
      const from = performance.now();
      await solveInThreads(problem, { tolerance: LEAST, mostIterations: ITERATIONS, trace: false }, threads);
      seconds[threads].push((performance.now() - from) / 1000);
    }
  }
  const [alone, shared] = [median(seconds[1]), median(seconds[THREADS])];
  const efficiency = Math.round((100 * alone) / (THREADS * shared)) / 100;
  const result = {
    ...{ benchmark: 'drum-threads', node: process.version, ...SIZE, iterations: ITERATIONS, rounds: ROUNDS },
    ...{ threads: THREADS, goal: GOAL, seconds, efficiency },
  };
  console.log(JSON.stringify(result, null, 2));
}

void main();
