/** The `isoverbs` command. Exit codes: 0 success, 1 failure, 2 usage error. */
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { ConfigError, IsoverbsError } from '../verbs/errors.ts';
import { version } from '../version.ts';
import { COMPLETE_COMMAND } from './completion-scripts.ts';
import { escapedLines } from './escape.ts';
import { debug, setLevel } from './log.ts';
import { describe, formatPage, pathOf } from './manual.ts';
import { parseSeeds, parseWorkers, WORKERS, type WorkerWords } from './seeds.ts';
import { positive } from './values.ts';

export const OK = 0;
export const FAILED = 1;
export const USAGE = 2;

const LEVELS = ['silent', 'error', 'warn', 'info', 'debug'];

/** Runs the command line; resolves with the exit code. Results go to stdout, everything else to stderr. */
export async function run(argv: readonly string[]): Promise<number> {
  try {
    const command = await program(commandsIn(argv));
    await command.parseAsync(withoutHelpWord(command, argv), { from: 'user' });
    // `isoverbs run` exits with the status of its program.
    return Number(process.exitCode ?? OK);
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? OK : USAGE;
    await debug(error);
    const code = error instanceof IsoverbsError ? ` (${error.code})` : '';
    const message = error instanceof Error ? error.message : String(error);
    process.stderr.write(`isoverbs: ${escapedLines(message)}${code}\n`);
    return error instanceof ConfigError ? USAGE : FAILED;
  }
}

type Add = (root: Command) => void;

/** The commands in the order of the help page. Each is loaded on demand, so that `isoverbs` starts quickly. */
const COMMANDS: Readonly<Record<string, () => Promise<Add>>> = {
  devices: async () => (await import('./commands/devices.ts')).addDevices,
  policies: async () => (await import('./commands/policies.ts')).addPolicies,
  demo: async () => addDemo,
  compare: async () => (await import('./commands/compare.ts')).addCompare,
  isolation: async () => (await import('./commands/isolation.ts')).addIsolation,
  mix: async () => (await import('./commands/mix.ts')).addMix,
  bench: async () => (await import('./commands/bench.ts')).addBench,
  calibrate: async () => (await import('./commands/calibrate.ts')).addCalibrate,
  reproduce: async () => addReproduce,
  drum: async () => (await import('./commands/drum.ts')).addDrum,
  trace: async () => (await import('./commands/trace.ts')).addTrace,
  daemon: async () => {
    const { addDaemon } = await import('./commands/daemon.ts');
    return (root) => addDaemon(root, () => root.opts<{ log?: string }>().log ?? 'warn');
  },
  top: async () => (await import('./commands/top.ts')).addTop,
  tenants: async () => (await import('./commands/tenants.ts')).addTenants,
  set: async () => (await import('./commands/tenants.ts')).addSet,
  run: async () => (await import('./commands/run.ts')).addRun,
  init: async () => (await import('./commands/init.ts')).addInit,
  rxe: async () => (await import('./commands/rxe.ts')).addRxe,
  completion: async () => (await import('./commands/completion.ts')).addCompletion,
};

const ALL: readonly string[] = Object.keys(COMMANDS);

/** The commands to load for these words: all of them for the list of commands, and for unknown commands. */
function commandsIn(argv: readonly string[]): readonly string[] {
  const [name = '', ...words] = argv.slice(afterLog(argv));
  if (name === '--version' || name === '-V') return [];
  if (name === 'help' && words.length > 0) return commandsIn(words);
  if (name !== COMPLETE_COMMAND) return Object.hasOwn(COMMANDS, name) ? [name] : ALL;
  // The last word is still being typed.
  const asked = commandsIn(words.slice(words[0] === '--' ? 1 : 0, -1));
  return asked.length === 0 ? ALL : [...asked, 'completion'];
}

/** The position of the first word after `--log LEVEL`. */
function afterLog(argv: readonly string[]): number {
  let at = 0;
  while (argv[at] === '--log' || argv[at]?.startsWith('--log=')) at += argv[at] === '--log' ? 2 : 1;
  return at;
}

/**
 * `help drum solve` as `drum solve --help`, and `help NAME` as `NAME` if there is no such command, which reports that:
 * commander would print the page of the parent.
 */
function withoutHelpWord(root: Command, argv: readonly string[]): string[] {
  const at = afterLog(argv);
  const path: string[] = [];
  let command = root;
  let asks = false;
  for (const word of argv.slice(at)) {
    if (command.commands.length === 0 || word.startsWith('-')) break;
    const sub = command.commands.find((one) => one.name() === word);
    if (word === 'help' && !asks) asks = true;
    else if (sub === undefined) return asks ? [...argv.slice(0, at), ...path, word] : [...argv];
    else {
      path.push(word);
      command = sub;
    }
  }
  return asks ? [...argv.slice(0, at), ...path, '--help'] : [...argv];
}

/** The tree of commands, or only the named ones. */
export async function program(names: readonly string[] = ALL): Promise<Command> {
  const command = root();
  for (const [name, load] of Object.entries(COMMANDS)) {
    if (names.includes(name)) (await load())(command);
  }
  hint(command);
  return command;
}

function root(): Command {
  const command = new Command('isoverbs')
    .description('RDMA verbs for Node.js, and a shim that isolates the tenants of a shared NIC')
    .version(version(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this page')
    .helpCommand('help [command]', 'print the help page of a command')
    .configureHelp({ formatHelp: formatPage })
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'isoverbs: ')) })
    .addOption(
      new Option('--log <level>', 'how much to print on stderr (default: warn)')
        .env('ISOVERBS_LOG')
        .choices(LEVELS)
        .argParser(logLevel),
    )
    .hook('preAction', (root) => setLevel(root.opts<{ log?: string }>().log ?? ''))
    .enablePositionalOptions()
    .exitOverride();
  describe(command, {
    about:
      'Lists devices and policies, measures devices as perftest does, runs mixtures of applications on ' +
      'real and simulated NICs, and checks what papers report about them. Results go to stdout, everything ' +
      'else to stderr. Programs do not need this command to use isoverbs or to run under a policy.',
    examples: [
      ['isoverbs devices', 'list the devices, and what is required to use real ones'],
      ['isoverbs policies', 'list the policies and their options'],
      ['isoverbs help mix', 'print the help page of a command'],
    ],
    failed: 'failure; stderr gives the reason',
    seeAlso: ['docs/configuration.md', 'docs/errors.md', 'docs/guide.md'],
  });
  return command;
}

/** Makes usage errors end with a reference to the help page. */
function hint(command: Command): void {
  command.showHelpAfterError(`See: ${pathOf(command)} --help`);
  for (const sub of command.commands) hint(sub);
}

function addDemo(command: Command): void {
  const demo = command
    .command('demo')
    .description('run two tenants on one simulated NIC: alone, without a policy, and under perf')
    .option('--ms <n>', 'virtual time of each run, in milliseconds', positive, 20)
    .option('--json [file]', 'write JSON to this file; without a file, to standard output')
    .option('--svg <file>', 'draw a chart into this file (requires the packages vega and vega-lite)')
    .action(async ({ ms, json, svg }: { ms: number; json?: string | true; svg?: string }) => {
      const { runDemo } = await import('./commands/demo.ts');
      await runDemo({ ms, json: json === true ? '-' : json, svg });
    });
  describe(demo, {
    about:
      'A key-value store (A) and a bulk file transfer (B) share one simulated NIC of 100 Gbit/s. The table ' +
      "shows A's latency and B's bandwidth in virtual time, which is the same on every machine.",
    examples: [
      ['isoverbs demo', 'print the table'],
      ['isoverbs demo --ms 2 --json', 'a shorter run, as JSON'],
    ],
    failed: 'a file cannot be written',
    seeAlso: ['docs/policies/perf.md', 'isoverbs mix'],
  });
}

function addReproduce(command: Command): void {
  const sub = command
    .command('reproduce')
    .description('check what papers claim about policies and bare devices, and draw their figures')
    .option(
      '--system <system...>',
      'check claims about these: bare (devices without a policy), perf, justitia, palos, drum, tassel, fair; default: all',
    )
    .option(
      '--figure <figure...>',
      'draw these figures, such as perf-2b, or all; without --system, check no claims',
    )
    .option(
      '--policy <policy...>',
      'draw the figures under these policies, which may be paths of modules, written as for mix --policy',
    )
    .option(
      '--out <folder>',
      'write report.json, report.md and report.html to this folder, and keep results of runs',
    )
    .option(
      '--paper <paper...>',
      'only claims and figures of these papers: perf, justitia, palos, drum, tassel',
    )
    .option(
      '--id <claim...>',
      'check only these claims: ids of papers, such as perf-2.3.1-fig2a, or names of checks, such as six-apps',
    )
    .option('--seeds <list>', 'seeds: 1-5, 7 or 1,3', '1-5')
    .addOption(WORKERS[0])
    .addOption(WORKERS[1])
    .option('--smoke', 'run only the short set')
    .option('--keep <folder>', 'keep results of runs in this folder, and reuse those of the same code')
    .option('--against <file>', 'compare with the report.json of an earlier run')
    .option('--json', 'print JSON')
    .option('--freeze', 'write the profiles and all measured values to src/papers/engine/frozen.json')
    .action(async ({ seeds, workers, jobs, ...options }: ReproduceWords) => {
      const { reproduce } = await import('./commands/reproduce.ts');
      await reproduce({ ...options, seeds: parseSeeds(seeds), workers: parseWorkers({ workers, jobs }) });
    });
  describe(sub, {
    about:
      'Checks on simulated devices what papers report about bare NICs and policies, and our own goals for the policy ' +
      'fair, and reports which lines hold. Each line shows the worst seed. --figure draws the figures. A full run ' +
      'takes tens of minutes. With --keep or --out, runs whose results were kept are not repeated, except runs under ' +
      'policies from modules, which may have changed.',
    examples: [
      ['isoverbs reproduce --system bare --smoke --seeds 1', 'the short set, on one seed'],
      ['isoverbs reproduce --figure all --policy perf none --out out/report', 'the figures, as a page'],
      ['isoverbs reproduce --system perf --keep out/reproduce', 'all claims about perf'],
      ['isoverbs reproduce --system bare --paper palos', 'what Palos says about bare devices'],
      ['isoverbs reproduce --system bare --against old/report.json', 'what changed since an earlier report'],
    ],
    failed: 'a line does not hold, or a run failed',
    seeAlso: ['docs/simulation.md', 'docs/reproduction.md', 'isoverbs mix'],
  });
}

interface ReproduceWords extends WorkerWords {
  system?: string[];
  figure?: string[];
  policy?: string[];
  out?: string;
  paper?: string[];
  id?: string[];
  seeds: string;
  smoke?: boolean;
  keep?: string;
  against?: string;
  json?: boolean;
  freeze?: boolean;
}

function logLevel(text: string): string {
  if (text === '') return 'warn';
  if (!LEVELS.includes(text)) throw new InvalidArgumentError(`It must be one of ${LEVELS.join(', ')}.`);
  return text;
}
