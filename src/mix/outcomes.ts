/** Results of jobs, and which of them cannot be trusted. */
import type { Job } from './jobs.ts';
import type { MixResult } from './result.ts';

/** How a job ended. `isCallersFault`: the mixture itself was rejected. */
export type Outcome =
  | { readonly result: MixResult }
  | { readonly error: string; readonly isCallersFault?: boolean };

/** Outcomes by job. */
export class Outcomes {
  private readonly byKey = new Map<string, { job: Job; outcome: Outcome }>();

  constructor(entries: Iterable<readonly [Job, Outcome]> = []) {
    for (const [job, outcome] of entries) this.set(job, outcome);
  }

  get size(): number {
    return this.byKey.size;
  }

  get(job: Job): Outcome | undefined {
    return this.byKey.get(job.key)?.outcome;
  }

  set(job: Job, outcome: Outcome): void {
    this.byKey.set(job.key, { job, outcome });
  }

  delete(job: Job): void {
    this.byKey.delete(job.key);
  }

  *[Symbol.iterator](): IterableIterator<[Job, Outcome]> {
    for (const { job, outcome } of this.byKey.values()) yield [job, outcome];
  }
}

/** Runs that failed or broke an invariant, each as its command and the reason. No claim may rest on them. */
export function brokenRuns(outcomes: Outcomes): string[] {
  return [...outcomes].flatMap(([job, outcome]) => problemsOf(job, outcome));
}

/** Why this outcome cannot be trusted, one line for each reason. */
export function problemsOf({ command }: Job, outcome: Outcome): string[] {
  if ('error' in outcome) return [`${command}: ${outcome.error}`];
  const { invariants, apps } = outcome.result;
  const errors = apps
    .filter((app) => app.errors > 0)
    .map((app) => `${app.errors} requests of ${app.name} failed`);
  return [...invariants, ...errors].map((reason) => `${command}: ${reason}`);
}
