/** A thread of pool.ts. */
import { parentPort } from 'node:worker_threads';
import type { Job } from './jobs.ts';
import { runJob } from './pool.ts';

parentPort?.on('message', async (job: Job) => {
  parentPort?.postMessage(await runJob(job));
});
