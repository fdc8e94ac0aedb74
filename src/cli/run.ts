/** The `isoverbs` command. Exit codes: 0 done, 1 it failed, 2 it was called wrongly. */
import { Command, CommanderError, InvalidArgumentError } from 'commander';
import pino, { type Logger } from 'pino';
import { ConfigError, IsoverbsError } from '../verbs/errors.ts';
import { version } from '../version.ts';
import { addBench } from './bench.ts';
import { addCompare } from './compare.ts';
import { addDaemon } from './daemon.ts';
import { devices } from './devices.ts';
import { addMix } from './mix.ts';
import { listPolicies } from './policies.ts';
import { addTrace } from './trace.ts';

export const OK = 0;
export const FAILED = 1;
export const USAGE = 2;

const LEVELS = ['silent', 'error', 'warn', 'info', 'debug'];

/** Runs the command line; resolves with the exit code. Results go to stdout, everything else to stderr. */
export async function run(argv: readonly string[]): Promise<number> {
  const log = pino({ name: 'isoverbs', level: levelFromEnv() }, pino.destination({ dest: 2, sync: true }));
  try {
    await program(log).parseAsync([...argv], { from: 'user' });
    // `isoverbs run` ends as the program does.
    return Number(process.exitCode ?? OK);
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? OK : USAGE;
    log.debug(error);
    const code = error instanceof IsoverbsError ? ` (${error.code})` : '';
    process.stderr.write(`isoverbs: ${error instanceof Error ? error.message : String(error)}${code}\n`);
    return error instanceof ConfigError ? USAGE : FAILED;
  }
}

function program(log: Logger): Command {
  const command = new Command('isoverbs')
    .description('RDMA verbs for Node.js, and a shim that keeps tenants of one NIC from hurting each other')
    .version(version())
    .option('--log <level>', `what to say on stderr: ${LEVELS.join(', ')}`, (level) => {
      if (!LEVELS.includes(level)) throw new InvalidArgumentError(`It is one of ${LEVELS.join(', ')}.`);
      log.level = level;
      return level;
    })
    .enablePositionalOptions()
    .exitOverride();
  command
    .command('devices')
    .description('list the devices, and say what is missing for real ones')
    .option('--json', 'print one JSON object: { devices, notes }')
    .action((options: { json?: boolean }) => devices(options, log));
  command
    .command('policies')
    .description('list the policies and interceptors, and their options')
    .option('--json', 'print JSON')
    .action((options: { json?: boolean }) => listPolicies(options));
  command
    .command('demo')
    .description('two tenants share one simulated NIC: alone, bare, and under each policy')
    .option('--ms <n>', 'virtual time of each run, in milliseconds', positive, 20)
    .option('--json [file]', 'write JSON to this file; without a file, to standard output')
    .option('--svg <file>', 'draw the picture into this file')
    .action(async ({ ms, json, svg }: { ms: number; json?: string | true; svg?: string }) => {
      const { runDemo } = await import('./demo.ts');
      await runDemo({ ms, json: json === true ? '-' : json, svg });
    });
  addCompare(command);
  addReproduce(command);
  addMix(command);
  addBench(command);
  addTrace(command);
  addDaemon(command, () => log.level);
  return command;
}

function addReproduce(command: Command): void {
  command
    .command('reproduce')
    .description('run what papers say of these systems and of bare devices; say what holds, and draw it')
    .option('--system <name...>', 'claims about these: bare (devices without any policy), perf; default: all')
    .option('--figure <name...>', 'figures, such as perf-2b; all: all of them; without --system only these')
    .option('--policy <name...>', 'draw the figures under these policies, as --policy of mix takes them')
    .option('--out <folder>', 'write report.json, report.md and report.html there, and keep results of runs')
    .option('--id <id...>', 'only these claims')
    .option('--seeds <list>', 'seeds: 1-5, 7 or 1,3', '1-5')
    .option('--jobs <n>', 'runs at a time; one for each core if nothing is said')
    .option('--smoke', 'only the short set')
    .option('--keep <folder>', 'keep results of runs there, and run nothing again that the same code has run')
    .option('--json', 'print JSON')
    .option('--freeze', 'write the profiles and all measured values to src/bench/claims/frozen.json')
    .action(async ({ seeds, jobs, ...options }: ReproduceWords) => {
      const { parseJobs, parseSeeds, reproduce } = await import('./reproduce.ts');
      await reproduce({ ...options, seeds: parseSeeds(seeds), jobs: parseJobs(jobs) });
    });
}

interface ReproduceWords {
  system?: string[];
  figure?: string[];
  policy?: string[];
  out?: string;
  id?: string[];
  seeds: string;
  jobs?: string;
  smoke?: boolean;
  keep?: string;
  json?: boolean;
  freeze?: boolean;
}

function positive(text: string): number {
  const value = Number(text);
  if (!(value > 0 && Number.isFinite(value))) throw new InvalidArgumentError('It is a number above 0.');
  return value;
}

function levelFromEnv(): string {
  const level = process.env.ISOVERBS_LOG ?? '';
  return LEVELS.includes(level) ? level : 'warn';
}
