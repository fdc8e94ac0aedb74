/** A worker thread of threads.ts. */
import { once } from 'node:events';
import { parentPort } from 'node:worker_threads';
import { iterationOf } from '../../policies/drum/solver/solve.ts';
import { Barrier } from './barrier.ts';
import { memoryOf, type Share, stepTogether } from './threads.ts';

if (parentPort === null) throw new Error('this module runs in a worker thread');
const [share] = await once(parentPort, 'message');
const { problem, options, columns, barrier: shared, threads, first, end } = share as Share;
const iteration = iterationOf(problem, { ...options, memory: memoryOf(columns) });
const barrier = new Barrier(shared, threads);
parentPort.postMessage('ready');
for (;;) {
  barrier.pass();
  if (barrier.isStopped) break;
  stepTogether(iteration, barrier, first, end);
}
