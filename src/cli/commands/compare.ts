/** `isoverbs compare`: runs one mixture alone, bare, under every policy and under every hardware scheduler. */
import { performance } from 'node:perf_hooks';
import type { Command } from 'commander';
import { type Comparison, compare, METRICS, type Metric, ofAlone } from '../../compare/compare.ts';
import { allPolicies } from '../../compare/schemes.ts';
import { WORDS } from '../../sim/profile/params.ts';
import { ConfigError } from '../../verbs/errors.ts';
import { describe } from '../manual.ts';
import { addMixOptions, collect, type MixDefaults, type MixWords, mixOf } from '../mix-options.ts';
import { compareMarkdown, compareText } from '../output/compare-table.ts';
import { progressLine } from '../output/progress.ts';
import { requireWritable, writeSvg } from '../output/svg.ts';
import { parseJobs, parseSeeds } from './reproduce.ts';

interface Options extends MixWords {
  policy?: string[];
  scheduler?: string[];
  seeds: string;
  jobs?: string;
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

/** Adds `compare` to the command. */
export function addCompare(command: Command): void {
  const compareCommand = command
    .command('compare')
    .description(
      'run one mixture alone, bare, under every policy and under every hardware scheduler, side by side',
    );
  addMixOptions(compareCommand, COMPARED)
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
    .option('--seeds <list>', 'seeds to average over: 1-5, 7 or 1,3', '1-3')
    .option('--jobs <n>', 'parallel runs (default: one per core)')
    .option('--json', 'print one JSON object')
    .option('--md', 'print the table as Markdown')
    .option('--svg <file>', 'draw the picture into this file')
    .action(run);
  describe(compareCommand, {
    about:
      'Runs each application alone, and all applications together: bare, under every policy, and under every ' +
      `scheduler of the NIC. One table and one picture show what each application gets. Default applications: ${COMPARED.apps.join(', ')}.`,
    examples: [
      ['isoverbs compare --seeds 1 --duration 3ms', 'all schemes, on one seed and in less time'],
      [
        'isoverbs compare --app B --app D --policy perf --scheduler none --seeds 1 --md',
        'one policy, as Markdown',
      ],
      ['isoverbs compare --svg out/compare.svg', 'also draw the picture'],
    ],
    failed: 'a run broke an invariant, or a file cannot be written',
    seeAlso: ['docs/compare.md', 'isoverbs mix', 'isoverbs policies'],
  });
}

async function run(options: Options): Promise<void> {
  const { json = false, md = false, svg } = options;
  if (json && md) throw new ConfigError('--json and --md exclude each other: leave out one of them');
  if (svg !== undefined) requireWritable('svg', svg);
  const startMs = performance.now();
  const result = await compare({
    mix: mixOf(options, COMPARED),
    policies: options.policy,
    schedulers: options.scheduler,
    seeds: parseSeeds(options.seeds),
    threads: parseJobs(options.jobs),
    onDone: progressLine(),
  });
  const wallMs = Math.round(performance.now() - startMs);
  if (svg !== undefined) {
    const { compareSvg } = await import('../output/compare-svg.ts');
    writeSvg(svg, await compareSvg(result));
  }
  if (json) process.stdout.write(`${JSON.stringify(jsonOf(result, wallMs), null, 2)}\n`);
  else process.stdout.write(md ? compareMarkdown(result) : compareText(result, wallMs));
  if (result.broken.length === 0) return;
  throw new Error(`${result.broken.length} of ${result.runs} runs failed; the first: ${result.broken[0]}`);
}

/** For programs. A metric without a value is null. */
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
