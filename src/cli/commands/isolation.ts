/** `isoverbs isolation`: victims next to attackers, bare, under policies and under hardware schedulers. */
import { constants } from 'node:os';
import type { Command } from 'commander';
import { isolationLive, LIVE_POLICIES, type LiveOptions } from '../../compare/isolation/live.ts';
import { type Isolation, isolation, POLICIES, SCHEDULERS } from '../../compare/isolation/matrix.ts';
import { ATTACKERS, CLASSES, VICTIM_TESTS } from '../../compare/isolation/suite.ts';
import { buildHash, RunCache } from '../../mix/run-cache.ts';
import { DEFAULTS } from '../../mix/spec.ts';
import { ConfigError } from '../../verbs/errors.ts';
import { meantBy } from '../../verbs/suggestions.ts';
import { parseWhole, requireWhole } from '../../verbs/units.ts';
import { describe, type Page } from '../manual.ts';
import { collect, type MixDefaults, type MixWords, mixOf } from '../mix-options.ts';
import { isolationMarkdown, isolationText } from '../output/isolation-table.ts';
import { progressLine } from '../output/progress.ts';
import { requirePicture, writeOutput } from '../output/svg.ts';
import { parseWorkers, WORKERS, type WorkerWords } from '../seeds.ts';

interface Options extends MixWords, WorkerWords {
  provider: string;
  device?: string[];
  socket?: string;
  rounds?: string;
  policy?: string[];
  scheduler?: string[];
  attacker?: string[];
  victim?: string[];
  seed?: string;
  violations?: boolean;
  keep?: string;
  json?: boolean;
  md?: boolean;
  svg?: string;
}

/** Policies that sample demands each millisecond have seen several samples at the end of the warm-up. */
const RUN: MixDefaults = { apps: [], duration: '6ms', warmup: '3ms' };

/** On real devices, in real time. */
const LIVE = { duration: '1200ms', warmup: '200ms' };
const PROVIDERS = ['sim', 'rdma-core', 'soft'] as const;
const MAX_ROUNDS = 1000;
/** Options that only real devices have. */
const LIVE_ONLY = ['device', 'socket', 'rounds'] as const;
/** Options that only simulated devices have. */
const SIM_ONLY = ['profile', 'set', 'scheduler', 'keep', 'workers', 'jobs'] as const;

const PAGE: Page = {
  about:
    'Runs each victim alone, and next to each attacker: bare, under policies and under schedulers of the NIC. ' +
    `The ${ATTACKERS.length} attackers and ${VICTIM_TESTS.length} victims are those of Husky (NSDI 2023). What a ` +
    'victim is due is decided before the run, from the resources that both need. Reports how many victims get less ' +
    'than 0.9 of that, by class of the attacker, and the commands that repeat the worst cases. With rdma-core and ' +
    'soft, victim and attacker are processes, under a policy with a daemon; they have at most as many queue pairs as ' +
    'the machine allows, and the victim is due half of what it gets alone.',
  examples: [
    [
      'isoverbs isolation --policy none --policy fair --attacker BW-1MB --victim large_bw/read --duration 2ms --warmup 1ms',
      'three attackers and one victim, bare and under one policy',
    ],
    ['isoverbs isolation --keep out/isolation --svg isolation.svg', 'everything, with the picture'],
    [
      'isoverbs isolation --policy perf --attacker pcie --victim te_many_qp/write-512 --violations --duration 2ms --warmup 1ms',
      'every violation of one victim by one class',
    ],
    [
      'isoverbs isolation --provider soft --attacker BW-4KB/write --victim large_bw/write',
      'one pair as processes, on user-space RoCE',
    ],
  ],
  failed: 'a run broke an invariant, a process or the daemon ended too early, or a file cannot be written',
  environment: ['ISOVERBS_FACTS'],
  seeAlso: ['docs/isolation.md', 'isoverbs compare', 'isoverbs mix', 'isoverbs daemon'],
};

/** Adds `isolation` to the command. */
export function addIsolation(command: Command): void {
  const isolationCommand = command
    .command('isolation')
    .description('run the attackers and victims of a test suite of isolation, bare and under policies')
    .option(
      '--provider <provider>',
      `where to run: ${PROVIDERS.join(', ')} (rdma-core and soft: as processes, in real time)`,
      'sim',
    )
    .option(
      '--device <device>',
      'real device of host 0, then of host 1; a single device serves both ends (default: the first device)',
      collect,
    )
    .option(
      '--socket <path>',
      'rdma-core and soft: socket of a running daemon (default: a new daemon for each policy)',
    )
    .option('--rounds <n>', 'rdma-core and soft: number of rounds; medians are reported (default: 1)')
    .option(
      '--policy <policy[:option[=value],...]>',
      `a policy, or none; may be repeated (default: ${POLICIES.join(', ')}; real devices: ${LIVE_POLICIES.join(', ')})`,
      collect,
    )
    .option(
      '--scheduler <scheduler>',
      `a hardware scheduler; may be repeated (default: ${SCHEDULERS.join(', ')}; with --policy: none)`,
      collect,
    )
    .option(
      '--attacker <attacker>',
      `a class (${CLASSES.join(', ')}), a test or a form of it; may be repeated (default: all)`,
      collect,
    )
    .option('--victim <victim>', 'a test or a form of it; may be repeated (default: all)', collect)
    .option('--profile <profile>', `simulated device (default: ${DEFAULTS.profile})`)
    .option('--set <parameter=value>', 'override a parameter of the profile; may be repeated', collect)
    .option(
      '--duration <time>',
      `length of each run, including the warm-up (default: ${RUN.duration}; real devices: ${LIVE.duration})`,
    )
    .option('--warmup <time>', `time at the start of each run that is not measured (default: ${RUN.warmup})`)
    .option('--seed <n>', `seed of all random variation (default: ${DEFAULTS.seed})`)
    .option('--violations', 'list every violation, not only the worst')
    .option('--keep <dir>', 'keep results of runs in this folder, and reuse those of the same build')
    .addOption(WORKERS[0])
    .addOption(WORKERS[1])
    .option('--json', 'print one JSON object')
    .option('--md', 'print the tables as Markdown')
    .option('--svg <file>', 'draw a heat map for each scheme into this file')
    .action(run);
  describe(isolationCommand, PAGE);
}

async function run(options: Options): Promise<void> {
  const { json = false, md = false, violations = false, svg, provider } = options;
  if (json && md) throw new ConfigError('--json and --md exclude each other: leave out one of them');
  if (!isProvider(provider)) {
    throw new ConfigError(
      `provider: '${provider}' is not one of ${PROVIDERS.join(', ')}${meantBy(provider, PROVIDERS)}`,
    );
  }
  if (svg !== undefined) await requirePicture('svg', svg);
  const result = await (provider === 'sim' ? onSim(options) : onDevices(options, provider));
  if (svg !== undefined) {
    const { isolationSvg } = await import('../output/isolation-svg.ts');
    writeOutput(svg, await isolationSvg(result));
  }
  if (json) process.stdout.write(`${JSON.stringify(jsonOf(result), null, 2)}\n`);
  else process.stdout.write(md ? isolationMarkdown(result) : isolationText(result, violations));
  const { broken, runs } = result;
  if (broken.length > 0) throw new Error(`${broken.length} of ${runs} runs failed; the first: ${broken[0]}`);
}

const isProvider = (text: string): text is (typeof PROVIDERS)[number] =>
  PROVIDERS.some((name) => name === text);

function common({ seed, policy, attacker, victim }: Options) {
  return {
    seed: seed === undefined ? DEFAULTS.seed : parseWhole('seed', seed),
    policies: policy,
    attackers: attacker,
    victims: victim,
    onDone: progressLine(),
  };
}

function onSim(options: Options): Promise<Isolation> {
  const { keep, scheduler } = options;
  const given = LIVE_ONLY.find((name) => options[name] !== undefined);
  if (given !== undefined)
    throw new ConfigError(`--${given} is for real devices (--provider rdma-core or soft)`);
  const { profile, set, duration, warmup } = mixOf(options, RUN);
  return isolation({
    ...common(options),
    fixed: { profile, set, duration, warmup },
    schedulers: scheduler,
    threads: parseWorkers(options),
    cache: keep === undefined ? undefined : new RunCache(keep, buildHash()),
  });
}

function onDevices(options: Options, provider: LiveOptions['provider']): Promise<Isolation> {
  const { device: devices = [], duration = LIVE.duration, warmup = LIVE.warmup, socket } = options;
  const rounds =
    options.rounds === undefined
      ? undefined
      : requireWhole('rounds', parseWhole('rounds', options.rounds), 1, MAX_ROUNDS);
  const given = SIM_ONLY.find((name) => options[name] !== undefined);
  if (given !== undefined) throw new ConfigError(`--${given} is for simulated devices: leave it out`);
  // The listeners of `exit` end the daemon and the applications.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => process.exit(128 + constants.signals[signal]));
  }
  const command = new URL('../main.js', import.meta.url);
  return isolationLive({
    ...common(options),
    ...{ provider, devices, duration, warmup, rounds, socket, command },
  });
}

/** The output for programs, which has each pairing only once for each scheme. */
function jsonOf({ fixed, pairings: _, ...result }: Isolation) {
  return { ...fixed, ...result };
}
