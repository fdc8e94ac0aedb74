/** A worker thread of computation-jobs.ts. */
import { parentPort } from 'node:worker_threads';
import type { ComputationSpec } from './computation.ts';
import { runComputation } from './computation-jobs.ts';

parentPort?.on('message', async (spec: ComputationSpec) => {
  parentPort?.postMessage(await runComputation(spec));
});
