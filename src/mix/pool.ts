/** Runs jobs, in this thread or in worker threads. */
import { setImmediate } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { ConfigError } from '../verbs/errors.ts';
import type { Job } from './jobs.ts';
import { type Outcome, Outcomes } from './outcomes.ts';
import { runMix } from './run.ts';
import type { RunCache } from './run-cache.ts';
import type { MixSpec } from './spec.ts';

/** Runs one mixture. Never throws: an error is an outcome. */
export async function runSpec(spec: MixSpec): Promise<Outcome> {
  try {
    return { result: await runMix(spec) };
  } catch (error) {
    const isCallersFault = error instanceof ConfigError;
    return { error: error instanceof Error ? error.message : String(error), isCallersFault };
  }
}

export interface PoolOptions {
  /** The number of threads; 1 means no worker threads. */
  threads: number;
  /** Supplies results of earlier runs and stores new ones. */
  cache?: RunCache;
  /** Called after each job. */
  onDone?(done: number, of: number): void;
}

/**
 * Runs all jobs. Their order does not matter, because each is a separate simulation. @throws Error when a worker dies
 */
export async function runJobs(
  jobs: readonly Job[],
  { threads, cache, onDone }: PoolOptions,
): Promise<Outcomes> {
  const outcomes = new Outcomes();
  for (const job of jobs) {
    const result = cache?.get(job);
    if (result !== undefined) outcomes.set(job, { result });
  }
  const open = jobs.filter((job) => outcomes.get(job) === undefined);
  let next = 0;
  const drain = async (run: (spec: MixSpec) => Promise<Outcome>) => {
    while (next < open.length) {
      const job = open[next++];
      const outcome = await run(job.spec);
      outcomes.set(job, outcome);
      if ('result' in outcome) cache?.put(job, outcome.result);
      onDone?.(outcomes.size, jobs.length);
    }
  };
  if (threads === 1) {
    await drain(async (spec) => {
      // Lets a SIGINT handler run between two simulations.
      await setImmediate();
      return runSpec(spec);
    });
    return outcomes;
  }
  // The compiled file: workers do not run TypeScript.
  const workers = Array.from(
    { length: Math.min(threads, open.length) },
    () => new Worker(new URL('./pool-worker.js', import.meta.url)),
  );
  try {
    await Promise.all(workers.map((worker) => drain((spec) => runIn(worker, spec))));
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
  return outcomes;
}

/** Runs a mixture in a worker. A worker that dies fails the whole pool. */
function runIn(worker: Worker, spec: MixSpec): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error) => reject(error);
    const onExit = (code: number) => reject(new Error(`a pool worker exited with code ${code}`));
    worker.once('error', onError).once('exit', onExit);
    worker.once('message', (outcome: Outcome) => {
      worker.off('error', onError).off('exit', onExit);
      resolve(outcome);
    });
    worker.postMessage(spec);
  });
}
