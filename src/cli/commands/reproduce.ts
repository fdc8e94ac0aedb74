/** `isoverbs reproduce`: runs what papers claim, reports which claims hold, and draws the papers' figures. */
import { existsSync } from 'node:fs';
import { policyInterceptors } from '../../drivers/index.ts';
import { distinct } from '../../mix/jobs.ts';
import { quoted } from '../../mix/mixture.ts';
import { brokenRuns } from '../../mix/outcomes.ts';
import { parsePolicy } from '../../mix/parse.ts';
import { runJobs } from '../../mix/pool.ts';
import { buildHash, RunCache } from '../../mix/run-cache.ts';
import type { Claim } from '../../papers/engine/claim.ts';
import { runComputations } from '../../papers/engine/computation-jobs.ts';
import { claimComputations, claimJobs, evaluate } from '../../papers/engine/evaluate-claim.ts';
import { evaluateFigure, figureComputations, figureJobs } from '../../papers/engine/evaluate-figure.ts';
import type { NamedFigure } from '../../papers/engine/figure.ts';
import { allFigures, selectFigures } from '../../papers/engine/figures.ts';
import { FIGURES_NOT_SHOWN } from '../../papers/engine/figures-not-shown.ts';
import { driftOf, profilesHash, readFrozen, writeFrozen } from '../../papers/engine/frozen.ts';
import type { Paper } from '../../papers/engine/paper.ts';
import {
  BARE,
  claimsAbout,
  notShownOf,
  PAPERS,
  SYSTEMS,
  selectClaims,
  selectPapers,
} from '../../papers/engine/papers.ts';
import { paperClaims } from '../../papers/engine/report.ts';
import { ConfigError } from '../../verbs/errors.ts';
import { version } from '../../version.ts';
import { jsonText } from '../output/json.ts';
import { progressLine } from '../output/progress.ts';
import { canDraw, INSTALL_VEGA } from '../output/svg.ts';
import { compared, readReport } from '../report/against.ts';
import { jsonOf, type Report } from '../report/report.ts';
import { reportText } from '../report/text.ts';
import { requireFolder, writeReport } from '../report/write.ts';

export interface ReproduceOptions {
  /** Systems whose claims to run. Default: all, unless a figure is named. */
  system?: readonly string[];
  /** Names of figures. Default: all, unless a system is named. */
  figure?: readonly string[];
  /** Policies to draw the figures under. Default: each figure's own. */
  policy?: readonly string[];
  /** Papers, to whose claims and figures the report is limited. */
  paper?: readonly string[];
  /** Ids of claims. Default: all. */
  id?: readonly string[];
  seeds: readonly number[];
  workers: number;
  /** Whether to run only the short set. */
  smoke?: boolean;
  json?: boolean;
  /** A folder for report.json, report.md, report.html and the results of runs. */
  out?: string;
  /** A folder for results of runs. Results of the same build are reused. */
  keep?: string;
  /** The report.json of an earlier run, to compare with. */
  against?: string;
  /** Whether to write frozen.json after running everything. */
  freeze?: boolean;
}

/** The claims and figures to run and report. */
interface Plan {
  systems: readonly string[];
  /** Papers to whose claims and figures the report is limited. */
  papers: readonly Paper[];
  claims: readonly Claim[];
  /** Whether `claims` has all claims of the systems. Only then can a report judge a whole paper. */
  whole: boolean;
  figures: readonly NamedFigure[];
  everyFigure: boolean;
  policies: readonly string[] | undefined;
}

const split = (words: readonly string[] = []) => words.flatMap((word) => word.split(','));

/** @throws ConfigError for unknown names, and for options that exclude each other */
function planOf(options: ReproduceOptions): Plan {
  const { system = [], figure = [], policy, smoke = false, freeze = false } = options;
  const ids = split(options.id);
  const papers = options.paper === undefined ? PAPERS : selectPapers(split(options.paper));
  const every = options.paper === undefined ? SYSTEMS : papers.map(({ key }) => key);
  const systems = figuresOnly(options) ? [] : system.length > 0 ? split(system) : every;
  if (freeze && (ids.length > 0 || smoke))
    throw new ConfigError('--freeze runs everything: leave out --id and --smoke');
  if (freeze && String(systems) !== BARE)
    throw new ConfigError(`--freeze is for --system ${BARE}: policies are not frozen`);
  if (freeze && options.paper !== undefined)
    throw new ConfigError('--freeze runs everything: leave out --paper');
  const all = claimsOf(systems).filter((claim) => options.paper === undefined || isAbout(claim, papers));
  const claims = selectClaims(all, ids).filter((claim) => !smoke || claim.smoke === true);
  if (systems.length > 0 && claims.length === 0)
    throw new ConfigError('none of these claims belongs to the short set: leave out --smoke');
  for (const word of policy ?? []) requirePolicy(word);
  const everything = system.length + ids.length === 0 && !smoke ? ['all'] : [];
  const known = allFigures().filter((one) => papers.some(({ key }) => key === one.paper));
  const figures = selectFigures(known, figure.length > 0 ? split(figure) : everything);
  if (policy !== undefined && figure.length === 0)
    throw new ConfigError(
      '--policy is for figures: name some with --figure, or use --figure all; to check claims about a policy, use --system',
    );
  return {
    systems,
    papers,
    claims,
    whole: claims.length === all.length,
    figures,
    everyFigure: figures.length === known.length,
    policies: policy,
  };
}

/** Whether a claim is about the system of one of the papers, or shows one of its claims. */
function isAbout({ system, shows }: Claim, papers: readonly Paper[]): boolean {
  return papers.some(({ key }) => key === system || shows.some((id) => id.startsWith(`${key}-`)));
}

function figuresOnly({ system = [], figure = [], id = [], smoke }: ReproduceOptions): boolean {
  if (figure.length === 0 || system.length > 0) return false;
  if (id.length > 0 || smoke) throw new ConfigError('--id and --smoke are for claims: name a --system');
  return true;
}

/** The claims of all systems. Claims about the bare device are not repeated for the policies. */
function claimsOf(systems: readonly string[]): Claim[] {
  const bare = systems.includes(BARE);
  return systems.flatMap(claimsAbout).filter(({ id }) => !(bare && id.startsWith(`${BARE}/`)));
}

/** @throws ConfigError for an unknown policy or option, or a module that makes no policy */
function requirePolicy(word: string): void {
  const { inner = [], ...outermost } = parsePolicy(word);
  const used = [outermost, ...inner].filter(({ policy }) => policy !== 'none');
  policyInterceptors(
    'inline',
    used.map(({ policy, policyOptions }) => ({ name: policy, options: { ...policyOptions } })),
  );
}

// The package has no tsconfig.json. This path is the same from src and from dist.
const IN_CLONE = existsSync(new URL('../../../tsconfig.json', import.meta.url));

/** The command that produces the same report. Options for output are left out. */
function commandOf({ system, figure, policy, paper, id, smoke, seeds }: ReproduceOptions): string {
  const lists = Object.entries({ system, figure, policy, paper, id }).flatMap(([name, words]) =>
    words === undefined ? [] : [`--${name}`, ...words.map(quoted)],
  );
  const start = IN_CLONE ? 'npm run reproduce --' : 'isoverbs reproduce';
  return [start, ...lists, ...(smoke ? ['--smoke'] : []), `--seeds ${seeds.join(',')}`].join(' ');
}

/** Runs what the cache does not have, and compares all results with the papers. */
async function reportOf(plan: Plan, options: ReproduceOptions): Promise<Omit<Report, 'against'>> {
  const { systems, papers, claims, whole, figures, everyFigure, policies } = plan;
  const isOf = (ids: readonly string[]) =>
    ids.some((id) => papers.some(({ key }) => id.startsWith(`${key}-`)));
  const { seeds, out, keep = out === undefined ? undefined : `${out}/runs` } = options;
  const cache = keep === undefined ? undefined : new RunCache(keep, buildHash());
  const jobs = distinct([...claimJobs(claims, seeds), ...figureJobs(figures, seeds, policies)]);
  const outcomes = await runJobs(jobs, { threads: options.workers, cache, onDone: progressLine() });
  // Unlike runs, computations depend on the code of the papers.
  const computations = [...claimComputations(claims, seeds), ...figureComputations(figures, seeds)];
  const computed = await runComputations(computations, {
    threads: options.workers,
    cache: keep === undefined ? undefined : new RunCache(keep, buildHash(['papers/'])),
    onDone: progressLine(),
  });
  const rows = claims.flatMap((claim) => evaluate(claim, seeds, outcomes, computed));
  const ofBare = claims.some(({ system }) => system === BARE);
  const frozen = ofBare ? readFrozen() : null;
  return {
    command: commandOf(options),
    date: new Date().toISOString().slice(0, 10),
    versions: { isoverbs: version(), node: process.versions.node, code: buildHash() },
    profiles: profilesHash(),
    systems,
    seeds,
    runs: jobs.length + computed.size,
    broken: brokenRuns(outcomes),
    drift:
      frozen === null
        ? []
        : driftOf(
            frozen,
            rows.filter(({ system }) => system === BARE),
            seeds,
            whole && papers === PAPERS,
          ),
    notShown: [...(whole ? notShownOf(systems) : []), ...(everyFigure ? FIGURES_NOT_SHOWN : [])].filter(
      ({ ids }) => isOf(ids),
    ),
    paper: whole ? paperClaims(systems, claims, rows).filter(({ id }) => isOf([id])) : [],
    claims,
    rows,
    figures: figures.map((figure) => evaluateFigure(figure, seeds, outcomes, policies, computed)),
  };
}

/** @throws ConfigError for bad options; Error when a line does not hold */
export async function reproduce(options: ReproduceOptions): Promise<void> {
  const plan = planOf(options);
  // First, because requireFolder creates folders and an empty report.json.
  const old = options.against === undefined ? undefined : readReport(options.against);
  if (options.out !== undefined) requireFolder(options.out);
  if (options.out !== undefined && plan.figures.length > 0 && !(await canDraw()))
    process.stderr.write(`isoverbs: the report will have tables, but no pictures: ${INSTALL_VEGA}\n`);
  const found = await reportOf(plan, options);
  const against = old === undefined ? undefined : compared(found, old, options.against ?? '');
  const report: Report = { ...found, against };
  const { rows, broken, runs } = report;
  const text = options.json ? jsonText(jsonOf(report)) : reportText(report);
  process.stdout.write(text);
  if (options.out !== undefined) await writeReport(report, options.out);
  if (options.freeze) writeFrozen(rows, options.seeds);
  const failed = rows.filter((row) => row.verdict === 'fails').length;
  if (failed + broken.length > 0) {
    throw new Error(`${failed} of ${rows.length} lines do not hold, ${broken.length} of ${runs} runs failed`);
  }
}
