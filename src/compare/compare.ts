/** Runs one mixture under many schemes and compares what each application gets with what it gets alone. */

import { jobOf, jobsOf, specOf } from '../mix/jobs.ts';
import { avgUs, gbps, mmps, p99Us } from '../mix/metrics.ts';
import { commandOf, type Mix, type MixApp, withKeys } from '../mix/mixture.ts';
import { brokenRuns, type Outcomes } from '../mix/outcomes.ts';
import { runJobs } from '../mix/pool.ts';
import { appsOf, paramsOf } from '../mix/resolve.ts';
import type { MixResult } from '../mix/result.ts';
import type { RunCache } from '../mix/run-cache.ts';
import type { Kind } from '../mix/spec.ts';
import { Stacks } from '../mix/stacks.ts';
import { ConfigError } from '../verbs/errors.ts';
import { type Choice, type SchemeGroup, schemesOf } from './schemes.ts';

/** The metrics of each application. For copies, rates are sums and latencies are means. */
export const METRICS = Object.freeze({
  throughputGbps: gbps,
  messageRateMmps: mmps,
  avgUs,
  p99Us,
});
export type Metric = keyof typeof METRICS;

/** Metrics for which larger is better. */
export const RATES: readonly Metric[] = ['throughputGbps', 'messageRateMmps'];

/** One application under one scheme: means over the seeds, or NaN if nothing completed. */
export type Measured = Readonly<Record<Metric, number>>;

/** One application of the mixture. */
export interface ComparedApp {
  readonly name: string;
  readonly kind: Kind;
  /** The application as `--app` takes it. */
  readonly words: string;
}

/** One row: a scheme, or each application alone. */
export interface ComparedRow {
  readonly name: string;
  readonly group: SchemeGroup;
  readonly says: string;
  /** Commands that repeat the runs of the first seed. The row `alone` has one for each application. */
  readonly commands: readonly string[];
  /** Outcomes in the order of the applications. */
  readonly apps: readonly Measured[];
}

export interface Comparison {
  readonly mix: Mix;
  readonly seeds: readonly number[];
  readonly apps: readonly ComparedApp[];
  /** `alone`, `bare`, then the other schemes. */
  readonly rows: readonly ComparedRow[];
  readonly runs: number;
  /** Runs that failed or broke an invariant, with the reason. */
  readonly broken: readonly string[];
}

export interface CompareOptions extends Choice {
  readonly mix: Mix;
  readonly seeds: readonly number[];
  readonly threads: number;
  readonly cache?: RunCache;
  onDone?(done: number, of: number): void;
}

/** A row that has not run yet. `parts`: one mixture for each application, or one mixture with all of them. */
interface Plan {
  readonly row: Omit<ComparedRow, 'apps' | 'commands'>;
  readonly parts: readonly Mix[];
}

/**
 * Runs the comparison.
 * @throws ConfigError for an invalid mixture, policy or scheduler, before anything runs; Error when a run fails
 */
export async function compare(options: CompareOptions): Promise<Comparison> {
  const { seeds, threads, cache, onDone } = options;
  const [first] = seeds;
  const mix = named(options.mix, first);
  const plans = plansOf(mix, options);
  for (const part of plans.flatMap(({ parts }) => parts)) requireRunnable(part, first);
  const jobs = plans.flatMap(({ parts }) => parts.flatMap((part) => jobsOf(part, seeds)));
  const outcomes = await runJobs(jobs, { threads, cache, onDone });
  const apps = mix.apps.map(({ spec }, i) => ({
    name: spec.name,
    kind: spec.kind,
    words: options.mix.apps[i].words,
  }));
  const rows = plans.map(({ row, parts }) => ({
    ...row,
    commands: parts.map((part) => commandOf(part, first)),
    apps: apps.map(({ name }, i) => measured(parts[parts.length === 1 ? 0 : i], name, seeds, outcomes)),
  }));
  return { mix, seeds, apps, rows, runs: jobs.length, broken: brokenRuns(outcomes) };
}

function plansOf(mix: NamedMix, choice: Choice): Plan[] {
  const alone: Plan = {
    row: { name: 'alone', group: 'alone', says: 'each application alone on the bare device' },
    parts: mix.apps.map((app) => ({ ...mix, apps: [app] })),
  };
  const schemes = schemesOf(mix, paramsOf(specOf(mix, 1)), choice);
  return [alone, ...schemes.map(({ mix: part, ...row }) => ({ row, parts: [part] }))];
}

/** A mixture in which every application has a name. */
type NamedMix = Omit<Mix, 'apps'> & {
  readonly apps: readonly (MixApp & { readonly spec: { readonly name: string } })[];
};

/** Names each application, so that it has the same name when it runs alone. */
function named(mix: Mix, seed: number): NamedMix {
  const spec = specOf(mix, seed);
  const resolved = appsOf(spec, paramsOf(spec));
  let at = 0;
  const apps = mix.apps.map((app) => {
    const { name, count } = app.spec;
    const first = resolved[at].name;
    at += count ?? 1;
    if (name !== undefined) return { ...app, spec: { ...app.spec, name } };
    return withKeys(app, { name: count === undefined ? first : first.replace(/\.0$/, '') });
  });
  return { ...mix, apps };
}

/** Rejects an invalid mixture before anything runs. @throws ConfigError */
export function requireRunnable(mix: Mix, seed: number): void {
  const spec = specOf(mix, seed);
  new Stacks(spec, appsOf(spec, paramsOf(spec)));
}

function measured(mix: Mix, name: string, seeds: readonly number[], outcomes: Outcomes): Measured {
  const runs = seeds.map((seed) => resultOf(mix, seed, outcomes));
  const mean = (metric: Metric) =>
    runs.reduce((sum, run) => sum + METRICS[metric](run, name), 0) / runs.length;
  return {
    throughputGbps: mean('throughputGbps'),
    messageRateMmps: mean('messageRateMmps'),
    avgUs: mean('avgUs'),
    p99Us: mean('p99Us'),
  };
}

function resultOf(mix: Mix, seed: number, outcomes: Outcomes): MixResult {
  const job = jobOf(mix, seed);
  const outcome = outcomes.get(job);
  if (outcome === undefined) throw new Error(`${job.command} did not run`);
  if ('result' in outcome) return outcome.result;
  if (outcome.isCallersFault) throw new ConfigError(outcome.error);
  throw new Error(`${job.command}: ${outcome.error}`);
}

/** A metric relative to what the application gets alone, or NaN if it got nothing. */
export function ofAlone(
  { rows }: Pick<Comparison, 'rows'>,
  row: number,
  app: number,
  metric: Metric,
): number {
  return rows[row].apps[app][metric] / rows[0].apps[app][metric];
}

/**
 * The rows with the best value of all schemes; `alone` does not count as a scheme. Values with the same printed form
 * are equally good.
 */
export function bestOf(
  { rows }: Pick<Comparison, 'rows'>,
  app: number,
  metric: Metric,
  shown: (value: number) => string,
): number[] {
  const values = rows.map(({ apps, group }) => (group === 'alone' ? Number.NaN : apps[app][metric]));
  const there = values.filter(Number.isFinite);
  if (there.length === 0) return [];
  const best = RATES.includes(metric) ? Math.max(...there) : Math.min(...there);
  return values.flatMap((value, i) => (shown(value) === shown(best) ? [i] : []));
}
