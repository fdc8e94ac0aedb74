/** A worker thread of threads.ts. */
import { parentPort, workerData } from 'node:worker_threads';
import { iterationOf } from '../../policies/drum/solver/solve.ts';
import { Barrier } from './barrier.ts';
import { memoryOf, type Share, stepTogether } from './threads.ts';

const { problem, options, columns, barrier: shared, threads, first, end } = workerData as Share;
const iteration = iterationOf(problem, { ...options, memory: memoryOf(columns) });
const barrier = new Barrier(shared, threads);
parentPort?.postMessage('ready');
for (;;) {
  barrier.pass();
  if (barrier.isStopped) break;
  stepTogether(iteration, barrier, first, end);
}
