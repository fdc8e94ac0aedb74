/**
 * `isoverbs compare`: runs one mixture alone, bare, under every policy and under every hardware scheduler; with
 * `--random`, many mixtures bare and under every policy; with `--evade`, tricks of a tenant under every policy.
 */
import { performance } from 'node:perf_hooks';
import type { Command } from 'commander';
import { type Comparison, compare, METRICS, type Metric, ofAlone } from '../../compare/compare.ts';
import { evade } from '../../compare/evade.ts';
import { allPolicies } from '../../compare/schemes.ts';
import { type WorseOff, worseOff } from '../../compare/worse-off.ts';
import { buildHash, RunCache } from '../../mix/run-cache.ts';
import { DEFAULTS } from '../../mix/spec.ts';
import { WORDS } from '../../sim/profile/params.ts';
import { ConfigError } from '../../verbs/errors.ts';
import { parseWhole } from '../../verbs/units.ts';
import { describe } from '../manual.ts';
import { addMixOptions, collect, type MixDefaults, type MixWords, mixOf } from '../mix-options.ts';
import { compareMarkdown, compareText } from '../output/compare-table.ts';
import { evadeMarkdown, evadeText } from '../output/evade-table.ts';
import { jsonText } from '../output/json.ts';
import { progressLine } from '../output/progress.ts';
import { requirePicture, writeOutput } from '../output/svg.ts';
import { worseOffText } from '../output/worse-off-table.ts';
import { parseSeeds, parseWorkers, WORKERS, type WorkerWords } from '../seeds.ts';

interface Options extends MixWords, WorkerWords {
  policy?: string[];
  scheduler?: string[];
  seeds?: string;
  random?: string;
  evade?: boolean;
  trick?: string[];
  violations?: boolean;
  seed?: string;
  keep?: string;
  json?: boolean;
  md?: boolean;
  svg?: string;
}

/** One application of each of the three kinds of PeRF, section 5.1. */
const COMPARED: MixDefaults = {
  apps: ['B:size=1MiB', 'M:size=16', 'D:size=16,think=1us'],
  duration: '10ms',
  warmup: '2ms',
};

const SEEDS = '1-3';

/** Random mixtures: long enough for the slowest policy to classify its applications. */
const RANDOM: MixDefaults = { apps: [], duration: '6ms', warmup: '1ms' };

/** Adds `compare` to the command. */
export function addCompare(command: Command): void {
  const compareCommand = command
    .command('compare')
    .description(
      'run one mixture alone, bare, under every policy and under every hardware scheduler, side by side',
    );
  const { duration, warmup } = COMPARED;
  addMixOptions(compareCommand, {
    duration: `${duration}; with --random: ${RANDOM.duration}`,
    warmup: `${warmup}; with --random: ${RANDOM.warmup}`,
  })
    .option(
      '--policy <policy[:option[=value],...]>',
      `a policy to compare, or none; may be repeated (default: ${allPolicies().join(', ')})`,
      collect,
    )
    .option(
      '--scheduler <scheduler>',
      `a hardware scheduler to compare, or none; may be repeated (default: each of ${WORDS.scheduler.join(', ')} except the profile's own)`,
      collect,
    )
    .option('--seeds <list>', `seeds to average over: 1-5, 7 or 1,3 (default: ${SEEDS})`)
    .option(
      '--random <n>',
      'run this many random mixtures, bare and under each policy, instead of one mixture',
    )
    .option('--evade', 'run tricks of one tenant under each policy: what it gains, and what others lose')
    .option('--trick <trick>', 'with --evade: run only this trick; may be repeated (default: all)', collect)
    .option('--violations', 'with --evade: print only tricks that gain or harm too much')
    .option(
      '--seed <n>',
      `with --random: the seed of the mixtures and of their runs (default: ${DEFAULTS.seed})`,
    )
    .option('--keep <dir>', 'keep results of runs in this folder, and reuse those of the same build')
    .addOption(WORKERS[0])
    .addOption(WORKERS[1])
    .option('--json', 'print one JSON object')
    .option('--md', 'print the table as Markdown')
    .option('--svg <file>', 'draw the picture into this file')
    .action(run);
  describe(compareCommand, {
    about:
      'Runs each application alone, and all applications together: bare, under every policy, and under every ' +
      `scheduler of the NIC. One table and one picture show what each application gets. Default applications: ${COMPARED.apps.join(', ')}. ` +
      'With --random, draws mixtures from a seed, runs each of them bare and under every policy, and reports which ' +
      'applications are worse off than bare, with the commands that repeat the worst cases. Under policies that limit ' +
      'rates, the mixtures also run with random rates, and every application that exceeds its rate, or gets less than ' +
      'its share, is reported. With --evade, runs tricks ' +
      'by which a tenant may try to get more than its share, bare and under every policy, and reports what the tenant ' +
      'gains and what others lose.',
    examples: [
      ['isoverbs compare --seeds 1 --duration 3ms', 'all schemes, on one seed and in less time'],
      [
        'isoverbs compare --app B --app D --policy perf --scheduler none --seeds 1 --md',
        'one policy, as Markdown',
      ],
      ['isoverbs compare --svg compare.svg', 'also draw the picture'],
      [
        'isoverbs compare --random 4 --seed 1 --policy perf --duration 2ms',
        'which applications of random mixtures are worse off than bare',
      ],
      [
        "isoverbs compare --evade --trick 'has 32 contexts' --policy none --policy fair --duration 4ms",
        'what a tenant with 32 contexts gains over one with a single context',
      ],
    ],
    failed: 'a run broke an invariant, or a file cannot be written',
    seeAlso: ['docs/compare.md', 'isoverbs mix', 'isoverbs policies'],
  });
}

async function run(options: Options): Promise<void> {
  const { svg, random, evade: isEvade = false } = options;
  if (random === undefined && options.seed !== undefined) {
    throw new ConfigError(
      '--seed is for random mixtures (--random); --seeds lists those of one mixture and of tricks',
    );
  }
  const tricksOnly = (['trick', 'violations'] as const).find((name) => options[name] !== undefined);
  if (!isEvade && tricksOnly !== undefined) {
    throw new ConfigError(`--${tricksOnly} requires --evade`);
  }
  if (isEvade) {
    await compareTricks(options);
    return;
  }
  if (svg !== undefined) await requirePicture('svg', svg);
  if (random === undefined) await compareOne(options);
  else await compareRandom(parseWhole('random', random), options);
}

async function compareOne(options: Options): Promise<void> {
  const { json = false, md = false, svg } = options;
  requireOneFormat(options);
  const startMs = performance.now();
  const result = await compare({
    mix: mixOf(options, COMPARED),
    policies: options.policy,
    schedulers: options.scheduler,
    seeds: parseSeeds(options.seeds ?? SEEDS),
    ...poolOf(options),
  });
  const wallMs = Math.round(performance.now() - startMs);
  if (svg !== undefined) {
    const { compareSvg } = await import('../output/compare-svg.ts');
    writeOutput(svg, await compareSvg(result));
  }
  if (json) process.stdout.write(jsonText(jsonOf(result, wallMs)));
  else process.stdout.write(md ? compareMarkdown(result) : compareText(result, wallMs));
  requireIntact(result);
}

/** Options that describe or print a comparison of one mixture. */
const ONE_MIXTURE = ['app', 'hosts', 'scheduler', 'seeds', 'md'] as const;

async function compareRandom(count: number, options: Options): Promise<void> {
  const given = ONE_MIXTURE.find((name) => options[name] !== undefined);
  if (given !== undefined) throw new ConfigError(`--${given} cannot be combined with --random`);
  const { profile, seed, svg, policy } = options;
  const { set, duration, warmup, topology } = mixOf(options, RANDOM);
  const result = await worseOff({
    count,
    seed: seed === undefined ? DEFAULTS.seed : parseWhole('seed', seed),
    fixed: { ...(profile !== undefined && { profile }), set, duration, warmup, topology },
    policies: policy,
    ...poolOf(options),
  });
  if (svg !== undefined) {
    const { worseOffSvg } = await import('../output/worse-off-svg.ts');
    writeOutput(svg, await worseOffSvg(result));
  }
  process.stdout.write(options.json ? jsonText(randomJson(result)) : worseOffText(result));
  requireIntact(result);
}

/** Options that tricks have no use for. */
const NOT_TRICKS = ['app', 'hosts', 'topology', 'scheduler', 'random', 'svg'] as const;

async function compareTricks(options: Options): Promise<void> {
  const { json = false, md = false, violations = false, policy, trick } = options;
  const given = NOT_TRICKS.find((name) => options[name] !== undefined);
  if (given !== undefined)
    throw new ConfigError(`--${given} and --evade exclude each other: leave out one of them`);
  requireOneFormat(options);
  const { profile, set, duration, warmup } = mixOf(options, COMPARED);
  const result = await evade({
    fixed: { profile, set, duration, warmup },
    seeds: parseSeeds(options.seeds ?? SEEDS),
    policies: policy,
    tricks: trick,
    ...poolOf(options),
  });
  const { fixed, ...measured } = result;
  if (json) process.stdout.write(jsonText({ ...fixed, ...measured }));
  else process.stdout.write(md ? evadeMarkdown(result, violations) : evadeText(result, violations));
  requireIntact(result);
}

function requireOneFormat({ json = false, md = false }: Options): void {
  if (json && md) throw new ConfigError('--json and --md exclude each other: leave out one of them');
}

function poolOf({ keep, ...words }: Options) {
  const cache = keep === undefined ? undefined : new RunCache(keep, buildHash());
  return { threads: parseWorkers(words), cache, onDone: progressLine() };
}

function requireIntact({
  broken,
  runs,
}: {
  readonly broken: readonly string[];
  readonly runs: number;
}): void {
  if (broken.length === 0) return;
  throw new Error(`${broken.length} of ${runs} runs failed; the first: ${broken[0]}`);
}

/**
 * The output for programs has no wall times, so that the same call prints the same bytes. A value without a completion
 * is null.
 */
function randomJson({ mixtures, policies, ...result }: WorseOff) {
  return {
    ...result,
    mixtures: mixtures.map(({ apps, ...mix }) => ({ ...mix, apps: apps.map(({ words }) => words) })),
    policies,
  };
}

/** The output for programs. A metric without a value is null. */
function jsonOf(result: Comparison, wallMs: number) {
  const metrics = Object.keys(METRICS) as Metric[];
  const { mix, seeds, runs, broken, apps, rows } = result;
  const { profile, set, duration, warmup, hosts, topology } = mix;
  return {
    ...{ profile, set, duration, warmup, hosts, topology, seeds, runs, wallMs, broken },
    apps,
    rows: rows.map((row, r) => ({
      ...row,
      apps: row.apps.map((measured, a) => ({
        name: apps[a].name,
        ...measured,
        ofAlone: Object.fromEntries(metrics.map((metric) => [metric, ofAlone(result, r, a, metric)])),
      })),
    })),
  };
}
