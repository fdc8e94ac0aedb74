/** Runs jobs, in this thread or in several. */
import { setImmediate } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { ConfigError } from '../verbs/errors.ts';
import { type Job, specOf } from './jobs.ts';
import type { MixResult } from './result.ts';
import { runMix } from './run.ts';
import type { Kept } from './run-cache.ts';

/** What became of a job; `isCallersFault`: the mix cannot be. */
export type Outcome = { result: MixResult } | { error: string; isCallersFault?: boolean };

export async function runJob({ mix, seed }: Job): Promise<Outcome> {
  try {
    return { result: await runMix(specOf(mix, seed)) };
  } catch (error) {
    const isCallersFault = error instanceof ConfigError;
    return { error: error instanceof Error ? error.message : String(error), isCallersFault };
  }
}

export interface PoolOptions {
  /** 1: in this thread. */
  threads: number;
  /** Takes results from here, and keeps them there. */
  kept?: Kept;
  /** Called after each job. */
  onDone?(done: number, of: number): void;
}

/** The outcomes by command. The order of the jobs does not matter: each is a simulation of its own. */
export async function runJobs(
  jobs: readonly Job[],
  { threads, kept, onDone }: PoolOptions,
): Promise<Map<string, Outcome>> {
  const outcomes = new Map<string, Outcome>();
  for (const { command } of jobs) {
    const result = kept?.get(command);
    if (result !== undefined) outcomes.set(command, { result });
  }
  const open = jobs.filter(({ command }) => !outcomes.has(command));
  let next = 0;
  const drain = async (run: (job: Job) => Promise<Outcome>) => {
    while (next < open.length) {
      const job = open[next++];
      const outcome = await run(job);
      outcomes.set(job.command, outcome);
      if ('result' in outcome) kept?.put(job.command, outcome.result);
      onDone?.(outcomes.size, jobs.length);
    }
  };
  if (threads === 1) {
    await drain(async (job) => {
      // Whoever presses Ctrl-C is heard between two runs.
      await setImmediate();
      return runJob(job);
    });
    return outcomes;
  }
  // The name is that of the compiled file: workers do not run TypeScript.
  const workers = Array.from(
    { length: Math.min(threads, open.length) },
    () => new Worker(new URL('./pool-worker.js', import.meta.url)),
  );
  try {
    await Promise.all(workers.map((worker) => drain((job) => ask(worker, job))));
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
  return outcomes;
}

/** A worker that dies is an error of the whole run. */
function ask(worker: Worker, job: Job): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error) => reject(error);
    const onExit = (code: number) => reject(new Error(`a worker ended with code ${code}`));
    worker.once('error', onError).once('exit', onExit);
    worker.once('message', (outcome: Outcome) => {
      worker.off('error', onError).off('exit', onExit);
      resolve(outcome);
    });
    worker.postMessage(job);
  });
}
