/** Results of jobs, and which of them cannot be trusted. */
import type { Job } from './jobs.ts';
import type { MixResult } from './result.ts';

/** How a job ended. `isCallersFault`: the mixture itself was rejected. */
export type Outcome<R = MixResult> =
  | { readonly result: R }
  | { readonly error: string; readonly isCallersFault?: boolean };

/** Outcomes by job: of mixtures, unless the types say otherwise. */
export class Outcomes<J extends { readonly key: string } = Job, R = MixResult> {
  private readonly byKey = new Map<string, { job: J; outcome: Outcome<R> }>();

  constructor(entries: Iterable<readonly [J, Outcome<R>]> = []) {
    for (const [job, outcome] of entries) this.set(job, outcome);
  }

  get size(): number {
    return this.byKey.size;
  }

  get(job: J): Outcome<R> | undefined {
    return this.byKey.get(job.key)?.outcome;
  }

  set(job: J, outcome: Outcome<R>): void {
    this.byKey.set(job.key, { job, outcome });
  }

  delete(job: J): void {
    this.byKey.delete(job.key);
  }

  *[Symbol.iterator](): IterableIterator<[J, Outcome<R>]> {
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
