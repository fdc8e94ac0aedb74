/** Runs jobs, in this thread or in worker threads. */
import { setImmediate } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { ConfigError } from '../verbs/errors.ts';
import { expectedPackets, type Job, usesModule } from './jobs.ts';
import { type Outcome, Outcomes } from './outcomes.ts';
import type { MixResult } from './result.ts';
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

export interface PoolOptions<R = MixResult> {
  /** The number of threads; 1 means no worker threads. */
  threads: number;
  /** Supplies results of earlier runs and stores new ones. */
  cache?: RunCache<R>;
  /** Called after each job. */
  onDone?(done: number, of: number): void;
}

/** How the jobs of a pool run. */
export interface Work<S, R> {
  /** In this thread. Never throws. */
  run(spec: S): Promise<Outcome<R>>;
  /** The compiled file of a worker, which answers each spec with an outcome: workers do not run TypeScript. */
  readonly worker: URL;
  /** Whether the cache may keep the result of a spec. Default: it keeps all results. */
  isKept?(spec: S): boolean;
}

/**
 * Runs all mixtures, the longest first. Each is a separate simulation, so no result depends on their order.
 * @throws Error when a worker dies
 */
export function runJobs(jobs: readonly Job[], options: PoolOptions): Promise<Outcomes> {
  const longestFirst = jobs
    .map((job) => ({ job, packets: expectedPackets(job.spec) }))
    .sort((a, b) => b.packets - a.packets)
    .map(({ job }) => job);
  return runPool(longestFirst, options, {
    run: runSpec,
    worker: new URL('./pool-worker.js', import.meta.url),
    // A module may have changed since the run.
    isKept: (spec) => !usesModule(spec),
  });
}

/** Runs jobs of any kind, in the given order. @throws Error when a worker dies */
export async function runPool<S, R, J extends { readonly key: string; readonly spec: S }>(
  jobs: readonly J[],
  { threads, cache, onDone }: PoolOptions<R>,
  work: Work<S, R>,
): Promise<Outcomes<J, R>> {
  const outcomes = new Outcomes<J, R>();
  const cacheOf = ({ spec }: J) => (work.isKept?.(spec) === false ? undefined : cache);
  for (const job of jobs) {
    const result = cacheOf(job)?.get(job);
    if (result !== undefined) outcomes.set(job, { result });
  }
  const open = jobs.filter((job) => outcomes.get(job) === undefined);
  let next = 0;
  const drain = async (run: (spec: S) => Promise<Outcome<R>>) => {
    while (next < open.length) {
      const job = open[next++];
      const outcome = await run(job.spec);
      outcomes.set(job, outcome);
      if ('result' in outcome) cacheOf(job)?.put(job, outcome.result);
      onDone?.(outcomes.size, jobs.length);
    }
  };
  if (threads === 1) {
    await drain(async (spec) => {
      // Lets a SIGINT handler run between two simulations.
      await setImmediate();
      return work.run(spec);
    });
    return outcomes;
  }
  const workers = Array.from({ length: Math.min(threads, open.length) }, () => new Worker(work.worker));
  try {
    await Promise.all(workers.map((worker) => drain((spec) => runIn<S, R>(worker, spec))));
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
  return outcomes;
}

/** Runs a job in a worker. A worker that dies fails the whole pool. */
function runIn<S, R>(worker: Worker, spec: S): Promise<Outcome<R>> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error) => reject(error);
    const onExit = (code: number) => reject(new Error(`a pool worker exited with code ${code}`));
    worker.once('error', onError).once('exit', onExit);
    worker.once('message', (outcome: Outcome<R>) => {
      worker.off('error', onError).off('exit', onExit);
      resolve(outcome);
    });
    worker.postMessage(spec);
  });
}
