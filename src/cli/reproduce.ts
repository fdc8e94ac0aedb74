/** `isoverbs reproduce`: runs the claims about a system and says which hold. */
import { availableParallelism } from 'node:os';
import { brokenRuns, evaluate, type Row } from '../bench/claims/evaluate.ts';
import { type Drift, driftOf, profilesHash, readFrozen, writeFrozen } from '../bench/claims/frozen.ts';
import { buildHash, Kept } from '../bench/claims/kept.ts';
import { loadClaims, type NamedClaim, select } from '../bench/claims/load.ts';
import { NOT_SHOWN, type NotShown } from '../bench/claims/not-shown.ts';
import { type PaperClaim, paperClaims } from '../bench/claims/papers.ts';
import { commandOf, jobsOf } from '../bench/claims/plan.ts';
import { runJobs } from '../bench/claims/pool.ts';
import { driftText, heldClaims, notShownText, paperText, tableOf } from '../bench/claims/report.ts';
import { ConfigError } from '../verbs/errors.ts';

/** What profiles are frozen by. */
const FROZEN = 'bare';

export interface ReproduceOptions {
  system: string;
  /** Default all. */
  id?: readonly string[];
  seeds: readonly number[];
  jobs: number;
  /** Only the short set. */
  smoke?: boolean;
  json?: boolean;
  /** A folder for results of runs; those of the same code that are there are not run again. */
  keep?: string;
  /** Writes frozen.json, after a run of everything. */
  freeze?: boolean;
}

/** Seeds as `1-5`, `7` or `1,3`. @throws ConfigError */
export function parseSeeds(text: string): number[] {
  const match = /^(\d+)-(\d+)$/.exec(text);
  const seeds =
    match === null
      ? text.split(',').map(Number)
      : Array.from({ length: Number(match[2]) - Number(match[1]) + 1 }, (_, i) => Number(match[1]) + i);
  if (text !== '' && seeds.length > 0 && seeds.every((seed) => Number.isSafeInteger(seed))) return seeds;
  throw new ConfigError(`seeds are written as 1-5, 7 or 1,3; got '${text}'`);
}

/** How many threads: a number, or one for each core. @throws ConfigError */
export function parseJobs(text: string | undefined): number {
  if (text === undefined) return availableParallelism();
  if (/^[1-9]\d*$/.test(text)) return Number(text);
  throw new ConfigError(`jobs must be a whole number from 1 on, got '${text}'`);
}

/** Only where somebody watches. */
function progress(done: number, of: number): void {
  if (process.stderr.isTTY) process.stderr.write(`\r${done} of ${of} runs${done === of ? '\n' : ''}`);
}

/** Everything, for programs: each mix as the command that runs it with the first seed. */
function jsonOf(
  options: ReproduceOptions,
  claims: readonly NamedClaim[],
  rows: readonly Row[],
  more: Report,
) {
  const list = claims.map(({ id, part, title, source, note, mixes }) => {
    const commands = Object.entries(mixes).map(([name, mix]) => [name, commandOf(mix, options.seeds[0])]);
    return { id, part, title, source, note, mixes: Object.fromEntries(commands) };
  });
  const { system, seeds } = options;
  return { system, seeds, profiles: profilesHash(), ...more, claims: list, rows };
}

interface Report {
  runs: number;
  broken: readonly string[];
  drift: readonly Drift[];
  notShown: readonly NotShown[];
  /** Of a part of the claims nothing can be said about the whole paper. */
  paper: readonly PaperClaim[];
}

/** What stands under the table. */
function summaryOf(claims: readonly NamedClaim[], rows: readonly Row[], report: Report): string {
  const { runs, broken, drift, notShown, paper } = report;
  const failed = rows.filter((row) => row.verdict === 'fails').length;
  const [held, counted] = heldClaims(claims, rows);
  const lines = [
    `${rows.length} lines, ${failed} of them fail; ${runs} runs, ${broken.length} of them broken.`,
    `${held} of ${counted} claims hold in every line.`,
    ...broken.map((line) => `broken: ${line}`),
  ];
  if (drift.length > 0) lines.push(`Not as it was when the profiles were frozen:\n${driftText(drift)}`);
  if (notShown.length > 0) lines.push(`Not counted:\n${notShownText(notShown)}`);
  if (paper.length > 0) lines.push(paperText(paper));
  return `${lines.join('\n')}\n`;
}

/** @throws ConfigError for bad options; Error when a line does not hold */
export async function reproduce(options: ReproduceOptions): Promise<void> {
  const { system, id = [], seeds, jobs: threads, smoke = false, freeze = false } = options;
  if (freeze && (id.length > 0 || smoke))
    throw new ConfigError('--freeze runs everything: leave out --id and --smoke');
  if (freeze && system !== FROZEN)
    throw new ConfigError(`--freeze is for the system ${FROZEN}: policies are not frozen`);
  const all = await loadClaims(system);
  const names = id.flatMap((text) => text.split(','));
  const claims = select(all, names).filter((claim) => !smoke || claim.smoke === true);
  if (claims.length === 0)
    throw new ConfigError('none of these claims belongs to the short set: leave out --smoke');
  const jobs = jobsOf(claims, seeds);
  const kept = options.keep === undefined ? undefined : new Kept(options.keep, buildHash());
  const outcomes = await runJobs(jobs, { threads, kept, onDone: progress });
  const rows = claims.flatMap((claim) => evaluate(claim, seeds, outcomes));
  const broken = brokenRuns(outcomes);
  const frozen = system === FROZEN ? readFrozen() : null;
  const drift = frozen === null ? [] : driftOf(frozen, rows, seeds, claims.length === all.length);
  const failed = rows.filter((row) => row.verdict === 'fails').length;
  const notShown = claims.length === all.length ? (NOT_SHOWN[system] ?? []) : [];
  const paper = claims.length === all.length ? paperClaims(system, claims, rows, notShown) : [];
  const report = { runs: jobs.length, broken, drift, notShown, paper };
  if (options.json) {
    process.stdout.write(`${JSON.stringify(jsonOf(options, claims, rows, report), null, 2)}\n`);
  } else {
    process.stdout.write(`${tableOf(claims, rows)}\n${summaryOf(claims, rows, report)}`);
  }
  if (freeze) writeFrozen(rows, seeds);
  if (failed + broken.length > 0) {
    throw new Error(
      `${failed} of ${rows.length} lines do not hold, ${broken.length} of ${jobs.length} runs are broken`,
    );
  }
}
