/** One mixture under many schemes: what each application gets, beside what it gets alone. */

import { commandOf, type Job, specOf } from '../mix/jobs.ts';
import { avgUs, gbps, mmps, p99Us } from '../mix/metrics.ts';
import { parseApp } from '../mix/parse.ts';
import { type Outcome, runJobs } from '../mix/pool.ts';
import { appsOf, paramsOf } from '../mix/resolve.ts';
import type { MixResult } from '../mix/result.ts';
import { interceptorsOf } from '../mix/run.ts';
import type { Kind } from '../mix/spec.ts';
import type { Mix } from '../papers/engine/claim.ts';
import { brokenRuns } from '../papers/engine/evaluate-claim.ts';
import { ConfigError } from '../verbs/errors.ts';
import { type Choice, type SchemeGroup, schemesOf, withKey } from './schemes.ts';

/** What is measured of each application; of copies, rates are sums and times are means. */
export const METRICS = Object.freeze({
  throughputGbps: gbps,
  messageRateMmps: mmps,
  avgUs,
  p99Us,
});
export type Metric = keyof typeof METRICS;

/** Which metrics are better when they are larger. */
export const RATES: readonly Metric[] = ['throughputGbps', 'messageRateMmps'];

/** One application under one scheme: means over the seeds; NaN where nothing was completed. */
export type Measured = Readonly<Record<Metric, number>>;

/** One application of the mixture. */
export interface ComparedApp {
  readonly name: string;
  readonly kind: Kind;
  /** As `--app` takes it. */
  readonly words: string;
}

/** One row: a scheme, or each application by itself. */
export interface ComparedRow {
  readonly name: string;
  readonly group: SchemeGroup;
  readonly says: string;
  /** The command of each run: of the first seed; of `alone` one for each application. */
  readonly commands: readonly string[];
  /** By application, in their order. */
  readonly apps: readonly Measured[];
}

export interface Comparison {
  readonly mix: Mix;
  readonly seeds: readonly number[];
  readonly apps: readonly ComparedApp[];
  /** Alone, bare, then the schemes. */
  readonly rows: readonly ComparedRow[];
  readonly runs: number;
  /** Runs that went wrong, with the reason. */
  readonly broken: readonly string[];
}

export interface CompareOptions extends Choice {
  readonly mix: Mix;
  readonly seeds: readonly number[];
  readonly threads: number;
  onDone?(done: number, of: number): void;
}

/** A row before it has run. `parts`: mixes, one for each application, or one for all of them. */
interface Plan {
  readonly row: Omit<ComparedRow, 'apps' | 'commands'>;
  readonly parts: readonly Mix[];
}

/**
 * Runs the comparison.
 * @throws ConfigError for a mixture, policy or scheduler that cannot be, before anything has run; Error when a
 * run fails
 */
export async function compare(options: CompareOptions): Promise<Comparison> {
  const { seeds, threads, onDone } = options;
  const [first] = seeds;
  const mix = named(options.mix, first);
  const plans = plansOf(mix, options);
  for (const part of plans.flatMap(({ parts }) => parts)) requireRunnable(part, first);
  const jobs = plans.flatMap(({ parts }) => parts.flatMap((part) => seeds.map((seed) => jobOf(part, seed))));
  const outcomes = await runJobs(jobs, { threads, onDone });
  const apps = mix.apps.map((words, i) => ({
    name: nameIn(words),
    kind: parseApp(words).kind,
    words: options.mix.apps[i],
  }));
  const rows = plans.map(({ row, parts }) => ({
    ...row,
    commands: parts.map((part) => commandOf(part, first)),
    apps: apps.map(({ name }, i) => measured(parts[parts.length === 1 ? 0 : i], name, seeds, outcomes)),
  }));
  return { mix, seeds, apps, rows, runs: jobs.length, broken: brokenRuns(outcomes) };
}

function plansOf(mix: Mix, choice: Choice): Plan[] {
  const alone: Plan = {
    row: { name: 'alone', group: 'alone', says: 'each application by itself on the bare device' },
    parts: mix.apps.map((app) => ({ ...mix, apps: [app] })),
  };
  const schemes = schemesOf(mix, paramsOf(specOf(mix, 1)), choice);
  return [alone, ...schemes.map(({ mix: part, ...row }) => ({ row, parts: [part] }))];
}

/** The mix with a name for each application, so that it has the same one alone. */
function named(mix: Mix, seed: number): Mix {
  const spec = specOf(mix, seed);
  const resolved = appsOf(spec, paramsOf(spec));
  let at = 0;
  const apps = mix.apps.map((words, i) => {
    const { name, count = 1 } = spec.apps[i];
    const first = resolved[at].name;
    at += count;
    if (name !== undefined) return words;
    return withKey(words, `name=${spec.apps[i].count === undefined ? first : first.replace(/\.0$/, '')}`);
  });
  return { ...mix, apps };
}

function nameIn(words: string): string {
  const { name } = parseApp(words);
  if (name === undefined) throw new Error(`'${words}' has no name`);
  return name;
}

/** What is wrong with it is said before anything runs. */
function requireRunnable(mix: Mix, seed: number): void {
  const spec = specOf(mix, seed);
  interceptorsOf(spec, appsOf(spec, paramsOf(spec)));
}

function jobOf(mix: Mix, seed: number): Job {
  return { command: commandOf(mix, seed), mix, seed };
}

function measured(
  mix: Mix,
  name: string,
  seeds: readonly number[],
  outcomes: ReadonlyMap<string, Outcome>,
): Measured {
  const runs = seeds.map((seed) => resultOf(commandOf(mix, seed), outcomes));
  const mean = (metric: Metric) =>
    runs.reduce((sum, run) => sum + METRICS[metric](run, name), 0) / runs.length;
  return {
    throughputGbps: mean('throughputGbps'),
    messageRateMmps: mean('messageRateMmps'),
    avgUs: mean('avgUs'),
    p99Us: mean('p99Us'),
  };
}

function resultOf(command: string, outcomes: ReadonlyMap<string, Outcome>): MixResult {
  const outcome = outcomes.get(command);
  if (outcome === undefined) throw new Error(`${command} did not run`);
  if ('result' in outcome) return outcome.result;
  if (outcome.isCallersFault) throw new ConfigError(outcome.error);
  throw new Error(`${command}: ${outcome.error}`);
}

/** Of what the application gets alone; NaN where it got nothing. */
export function ofAlone(
  { rows }: Pick<Comparison, 'rows'>,
  row: number,
  app: number,
  metric: Metric,
): number {
  return rows[row].apps[app][metric] / rows[0].apps[app][metric];
}

/** Rows that have the best of all schemes; `alone` is none. Values that read the same are equally good. */
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
