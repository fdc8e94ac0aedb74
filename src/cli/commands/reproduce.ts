/** `isoverbs reproduce`: runs what papers say of the systems, and reports what holds and what it looks like. */
import { availableParallelism } from 'node:os';
import { distinct, jobsOf } from '../../mix/jobs.ts';
import { runJobs } from '../../mix/pool.ts';
import { buildHash, Kept } from '../../mix/run-cache.ts';
import { parsePolicy } from '../../mix/spec.ts';
import { brokenRuns, evaluate } from '../../papers/engine/evaluate-claim.ts';
import { evaluateFigure, figureJobs } from '../../papers/engine/evaluate-figure.ts';
import type { NamedFigure } from '../../papers/engine/figure.ts';
import { FIGURES_NOT_SHOWN } from '../../papers/engine/figures-not-shown.ts';
import { driftOf, profilesHash, readFrozen, writeFrozen } from '../../papers/engine/frozen.ts';
import { loadClaims, type NamedClaim, SYSTEMS, select } from '../../papers/engine/load-claims.ts';
import { loadFigures, selectFigures } from '../../papers/engine/load-figures.ts';
import { notShownOf, paperClaims } from '../../papers/engine/papers.ts';
import { createPolicy } from '../../policies/index.ts';
import { ConfigError } from '../../verbs/errors.ts';
import { version } from '../../version.ts';
import { progressLine } from '../output/progress.ts';
import { jsonOf, type Report } from '../report/report.ts';
import { reportText } from '../report/text.ts';
import { requireFolder, writeReport } from '../report/write.ts';

/** What profiles are frozen by. */
const FROZEN = 'bare';

export interface ReproduceOptions {
  /** Whose claims. Default: all, if no figure is named. */
  system?: readonly string[];
  /** Names of figures. Default: all, if no system is named. */
  figure?: readonly string[];
  /** Under which the figures are drawn. Default: each figure's own. */
  policy?: readonly string[];
  /** Only these claims. Default all. */
  id?: readonly string[];
  seeds: readonly number[];
  jobs: number;
  /** Only the short set. */
  smoke?: boolean;
  json?: boolean;
  /** A folder for report.json, report.md, report.html, and for the results of runs. */
  out?: string;
  /** A folder for results of runs; those of the same code that are there are not run again. */
  keep?: string;
  /** Writes frozen.json, after a run of everything. */
  freeze?: boolean;
}

/** More are a slip of the finger. */
const MOST_SEEDS = 10_000;

/** Seeds as `1-5`, `7` or `1,3`. @throws ConfigError */
export function parseSeeds(text: string): number[] {
  if (!/^\d+(-\d+|(,\d+)*)$/.test(text)) {
    throw new ConfigError(`seeds are written as 1-5, 7 or 1,3; got '${text}'`);
  }
  const [first, last] = text.split('-').map(Number);
  if (last === undefined) return distinctSeeds(text.split(',').map(Number), text);
  if (last < first || last - first >= MOST_SEEDS) {
    throw new ConfigError(`seeds go up, and are ${MOST_SEEDS} at most; got '${text}'`);
  }
  return distinctSeeds(
    Array.from({ length: last - first + 1 }, (_, i) => first + i),
    text,
  );
}

/** The same one twice would count twice in a median. */
function distinctSeeds(seeds: readonly number[], text: string): number[] {
  if (seeds.every(Number.isSafeInteger)) return [...new Set(seeds)];
  throw new ConfigError(`a seed is too large; got '${text}'`);
}

/** How many threads: a number, or one for each core. @throws ConfigError */
export function parseJobs(text: string | undefined): number {
  if (text === undefined) return availableParallelism();
  if (/^[1-9]\d*$/.test(text)) return Number(text);
  throw new ConfigError(`jobs must be a whole number from 1 on, got '${text}'`);
}

/** What is asked for. */
interface Plan {
  systems: readonly string[];
  claims: readonly NamedClaim[];
  /** Of a part of the claims nothing can be said about a whole paper. */
  whole: boolean;
  figures: readonly NamedFigure[];
  allFigures: boolean;
  policies: readonly string[] | undefined;
}

const split = (words: readonly string[] = []) => words.flatMap((word) => word.split(','));

/** @throws ConfigError for what is not there, or does not go together */
async function planOf(options: ReproduceOptions): Promise<Plan> {
  const { system = [], figure = [], policy, smoke = false, freeze = false } = options;
  const ids = split(options.id);
  const systems = figuresOnly(options) ? [] : system.length > 0 ? split(system) : SYSTEMS;
  if (freeze && (ids.length > 0 || smoke))
    throw new ConfigError('--freeze runs everything: leave out --id and --smoke');
  if (freeze && String(systems) !== FROZEN)
    throw new ConfigError(`--freeze is for --system ${FROZEN}: policies are not frozen`);
  const all = await claimsOf(systems);
  const claims = select(all, ids).filter((claim) => !smoke || claim.smoke === true);
  if (systems.length > 0 && claims.length === 0)
    throw new ConfigError('none of these claims belongs to the short set: leave out --smoke');
  for (const word of policy ?? []) requirePolicy(word);
  const everything = system.length + ids.length === 0 && !smoke ? ['all'] : [];
  const there = await loadFigures();
  const figures = selectFigures(there, figure.length > 0 ? split(figure) : everything);
  if (policy !== undefined && figures.length === 0)
    throw new ConfigError('--policy is for figures: name some with --figure, or --figure all');
  const allFigures = figures.length === there.length;
  return { systems, claims, whole: claims.length === all.length, figures, allFigures, policies: policy };
}

function figuresOnly({ system = [], figure = [], id = [], smoke }: ReproduceOptions): boolean {
  if (figure.length === 0 || system.length > 0) return false;
  if (id.length > 0 || smoke) throw new ConfigError('--id and --smoke are for claims: name a --system');
  return true;
}

/** What a policy's paper says of the bare device is once enough. */
async function claimsOf(systems: readonly string[]): Promise<NamedClaim[]> {
  const lists = await Promise.all(systems.map(loadClaims));
  const bare = systems.includes(FROZEN);
  return lists.flat().filter(({ id }) => !(bare && id.startsWith(`${FROZEN}/`)));
}

/** @throws ConfigError for a policy that is not there */
function requirePolicy(word: string): void {
  const { policy, policyOptions } = parsePolicy(word);
  if (policy !== 'none') createPolicy(policy, policyOptions);
}

/** As a shell takes a word. */
const quoted = (word: string) => (/^[\w.,:=/-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** What was asked for, but for where it goes: who runs that has the same report. */
function commandOf({ system, figure, policy, id, smoke, seeds }: ReproduceOptions): string {
  const lists = Object.entries({ system, figure, policy, id }).flatMap(([name, words]) =>
    words === undefined ? [] : [`--${name}`, ...words.map(quoted)],
  );
  return ['npm run reproduce --', ...lists, ...(smoke ? ['--smoke'] : []), `--seeds ${seeds.join(',')}`].join(
    ' ',
  );
}

/** Runs what is not kept, and holds it against the papers. */
async function reportOf(plan: Plan, options: ReproduceOptions): Promise<Report> {
  const { systems, claims, whole, figures, allFigures, policies } = plan;
  const { seeds, out, keep = out === undefined ? undefined : `${out}/runs` } = options;
  const kept = keep === undefined ? undefined : new Kept(keep, buildHash());
  const jobs = distinct([...jobsOf(claims, seeds), ...figureJobs(figures, seeds, policies)]);
  const outcomes = await runJobs(jobs, { threads: options.jobs, kept, onDone: progressLine() });
  const rows = claims.flatMap((claim) => evaluate(claim, seeds, outcomes));
  const ofBare = claims.some(({ system }) => system === FROZEN);
  const frozen = ofBare ? readFrozen() : null;
  return {
    command: commandOf(options),
    versions: { isoverbs: version(), node: process.versions.node, code: buildHash() },
    profiles: profilesHash(),
    systems,
    seeds,
    runs: jobs.length,
    broken: brokenRuns(outcomes),
    drift:
      frozen === null
        ? []
        : driftOf(
            frozen,
            rows.filter(({ system }) => system === FROZEN),
            seeds,
            whole,
          ),
    notShown: [...(whole ? notShownOf(systems) : []), ...(allFigures ? FIGURES_NOT_SHOWN : [])],
    paper: whole ? paperClaims(systems, claims, rows) : [],
    claims,
    rows,
    figures: figures.map((figure) => evaluateFigure(figure, seeds, outcomes, policies)),
  };
}

/** @throws ConfigError for bad options; Error when a line does not hold */
export async function reproduce(options: ReproduceOptions): Promise<void> {
  const plan = await planOf(options);
  if (options.out !== undefined) requireFolder(options.out);
  const report = await reportOf(plan, options);
  const { rows, broken, runs } = report;
  const text = options.json ? `${JSON.stringify(jsonOf(report), null, 2)}\n` : reportText(report);
  process.stdout.write(text);
  if (options.out !== undefined) await writeReport(report, options.out);
  if (options.freeze) writeFrozen(rows, options.seeds);
  const failed = rows.filter((row) => row.verdict === 'fails').length;
  if (failed + broken.length > 0) {
    throw new Error(
      `${failed} of ${rows.length} lines do not hold, ${broken.length} of ${runs} runs are broken`,
    );
  }
}
