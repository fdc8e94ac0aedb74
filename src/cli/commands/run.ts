/** `isoverbs run`: runs a program as a tenant of this host. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { type Connection, connect } from '../../daemon/client/connection.ts';
import { socketOf, unreachable } from '../../daemon/client/tool-request.ts';
import { NO_DAEMON } from '../../daemon/ipc/socket-path.ts';
import { isTenant, isWeight, TENANT_ACCEPTED, TRAFFIC_NAMES } from '../../verbs/labels.ts';
import { describe } from '../manual.ts';
import { PROVIDERS } from '../values.ts';

interface RunFlags {
  policy?: string;
  provider?: string;
  tenant?: string;
  weight?: number;
  traffic?: string;
  socket?: string;
}

/** What a daemon sets for the programs of its host; '' if it sets nothing. */
interface Defaults {
  readonly policy: string;
  readonly provider: string;
}

const NO_DEFAULTS: Defaults = { policy: '', provider: '' };

/** The daemon's defaults, or why there is no daemon. */
function askDaemon(socket: string): Promise<Defaults | Error> {
  return new Promise((resolve) => {
    const on = {
      connected(connection: Connection) {
        connection.close();
        resolve(connection.welcome);
      },
      received() {},
      signalled() {},
      ended: resolve,
    };
    connect(socket, { role: 'tool' }, on, true);
  });
}

/**
 * The daemon's defaults. Without a daemon, NO_DEFAULTS, and a warning if the program needs a policy.
 * @param isOpen whether neither the command line nor the environment chooses a device, so that a daemon would choose it
 */
async function daemonDefaults(socket: string, needsPolicy: boolean, isOpen: boolean): Promise<Defaults> {
  const answer = await askDaemon(socket);
  if (!(answer instanceof Error)) return answer;
  if (needsPolicy) {
    const opens = isOpen ? await simulatedDefault() : '';
    process.stderr.write(
      `isoverbs: without --policy and without a daemon, the program runs without a policy${opens}; ${unreachable(socket, answer).message}\n`,
    );
  }
  return NO_DEFAULTS;
}

/** The simulated device that the program opens by default, where a daemon would have chosen soft0; '' with an RDMA device. */
async function simulatedDefault(): Promise<string> {
  const { getDeviceList } = await import('../../open.ts');
  const [first] = getDeviceList();
  return first?.provider === 'sim'
    ? ` and opens ${first.name} (simulated, within one process) by default`
    : '';
}

const FORWARDED_SIGNALS = [
  'SIGINT',
  'SIGQUIT',
  'SIGTERM',
  'SIGHUP',
  'SIGUSR1',
  'SIGUSR2',
  'SIGCONT',
] as const;
/** The exit codes that shells use. */
const NOT_RUNNABLE = 126;
const NOT_FOUND = 127;

/** @throws ConfigError for a policy with which the program could not start */
async function requirePolicy(policy: string): Promise<void> {
  const [{ rulingsOf }, { muteRenamedOptions }] = await Promise.all([
    import('../rulings.ts'),
    import('../../policies/parse-options.ts'),
  ]);
  // The program warns of renamed options itself.
  muteRenamedOptions();
  rulingsOf(policy);
}

/**
 * ISOVERBS_PROVIDER of the program: --provider, or what the daemon prefers if the environment leaves the choice open.
 * Simulated devices can still be opened by name.
 */
async function providerOf({ provider }: RunFlags, preferred: string): Promise<string | undefined> {
  if (provider !== undefined || preferred !== 'soft') return provider;
  const { whyNoUdp } = await import('../../providers/soft/native.ts');
  if (whyNoUdp() !== null) return undefined;
  process.stderr.write(
    'isoverbs: there is no RDMA device, so the program opens soft0 (user-space RoCE) by default; --provider sim selects simulated devices\n',
  );
  return 'soft,sim';
}

/** Starts a program that uses the policy and the daemon; so do its children. @returns its exit code */
async function runProgram([command, ...args]: string[], words: RunFlags): Promise<number> {
  const { env } = process;
  const isOff = (words.socket ?? env.ISOVERBS_DAEMON) === NO_DAEMON;
  const { socket = isOff ? NO_DAEMON : socketOf(), tenant, weight, traffic } = words;
  const isOpen = words.provider === undefined && !(env.ISOVERBS_PROVIDER || env.ISOVERBS_DEVICE);
  const isAsked = !isOff && (isOpen || words.policy === undefined);
  const defaults = isAsked ? await daemonDefaults(socket, words.policy === undefined, isOpen) : NO_DEFAULTS;
  const { policy = defaults.policy } = words;
  const provider = await providerOf(words, isOpen ? defaults.provider : '');
  if (policy !== '') await requirePolicy(policy);
  const register = new URL('../../register.js', import.meta.url).href;
  const own = {
    NODE_OPTIONS: `${env.NODE_OPTIONS ?? ''} --import=${register}`.trim(),
    ISOVERBS_DAEMON: socket,
    ...(policy !== '' && { ISOVERBS_POLICY: policy }),
    ...(provider !== undefined && { ISOVERBS_PROVIDER: provider }),
    ...(tenant !== undefined && { ISOVERBS_TENANT: tenant }),
    ...(weight !== undefined && { ISOVERBS_WEIGHT: String(weight) }),
    ...(traffic !== undefined && { ISOVERBS_TRAFFIC: traffic }),
  };
  return runForwarded(command, args, { ...env, ...own });
}

/** Runs a program in the foreground and forwards signals to it. @returns its exit code, as shells see it */
export function runForwarded(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<number> {
  const child = spawn(command, args, { stdio: 'inherit', env });
  for (const signal of FORWARDED_SIGNALS) process.on(signal, () => forward(signal, child));
  return new Promise((resolve) => {
    child.once('error', (error: NodeJS.ErrnoException) => {
      process.stderr.write(`isoverbs: ${command} cannot be started: ${whyNot(command, error)}\n`);
      resolve(error.code === 'ENOENT' ? NOT_FOUND : NOT_RUNNABLE);
    });
    child.once('exit', (code, signal) =>
      resolve(code ?? 128 + (constants.signals[signal ?? 'SIGTERM'] ?? 0)),
    );
  });
}

function whyNot(command: string, { code, message }: NodeJS.ErrnoException): string {
  // A script that is not executable, or not on the PATH, is probably meant as a program of Node.js.
  const isScript = /\.[cm]?js$/.test(command) && existsSync(command);
  if (isScript) return `${message}; to run it with Node.js, use \`isoverbs run -- node ${command}\``;
  if (code !== 'ENOENT') return message;
  return command.includes('/')
    ? 'there is no such file (ENOENT)'
    : 'not found in any folder on the PATH (ENOENT)';
}

/**
 * The terminal sends signals such as Ctrl-C to every process in the foreground, so the program must not get them twice.
 */
function forward(signal: NodeJS.Signals, child: ChildProcess): void {
  const isFromKeyboard = signal === 'SIGINT' || signal === 'SIGQUIT';
  if (!isFromKeyboard || !isInForeground()) child.kill(signal);
}

/** Whether this process belongs to the group to which its terminal sends signals (man proc_pid_stat). */
function isInForeground(): boolean {
  try {
    const stat = readFileSync('/proc/self/stat', 'utf8');
    const [, , , group, , , foreground] = stat.slice(stat.lastIndexOf(')') + 1).split(' ');
    return group === foreground;
  } catch {
    return false;
  }
}

/** A number within the range that the daemon accepts. @throws InvalidArgumentError */
function weight(text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && isWeight(value)) return value;
  throw new InvalidArgumentError('It must be a number from 1e-6 to 1e6.');
}

/** @throws InvalidArgumentError */
function tenantName(text: string): string {
  if (isTenant(text)) return text;
  throw new InvalidArgumentError(`It ${TENANT_ACCEPTED}.`);
}

/** An empty variable of the shell must not turn off the daemon's policy. @throws InvalidArgumentError */
function policyWords(text: string): string {
  if (text.trim() !== '') return text;
  throw new InvalidArgumentError('It must not be empty; use `none` to run the program without a policy.');
}

/** Adds `run` to the command. */
export function addRun(command: Command): void {
  const sub = command
    .command('run')
    .description('run a Node.js program, and its children, as a tenant of this host')
    .argument('<command...>', 'the program and its arguments')
    .option(
      '--policy <policy[:option[=value],...]>',
      "the policy, with options as in ISOVERBS_POLICY (default: the daemon's)",
      policyWords,
    )
    .addOption(
      new Option(
        '--provider <provider>',
        'the program uses only devices of this provider (default: all; without an RDMA device, the daemon chooses)',
      ).choices(PROVIDERS),
    )
    .option('--tenant <tenant>', 'the tenant to which the program belongs', tenantName)
    .option('--weight <number>', "weight of the tenant's share", weight)
    .addOption(
      new Option('--traffic <kind>', 'kind of traffic that the tenant declares').choices(TRAFFIC_NAMES),
    )
    .option('--socket <path>', 'the socket of the daemon; none: run the program without a daemon')
    .passThroughOptions()
    .action(async (words: string[], options: RunFlags) => {
      process.exitCode = await runProgram(words, options);
    });
  describe(sub, {
    about:
      'Starts the unchanged program with a policy and the daemon in its environment. ' +
      'Without a daemon, the program still runs, after a warning on stderr. Signals are forwarded to the program.',
    examples: [
      ['isoverbs run -- node app.js', "under the daemon's policy"],
      [
        'isoverbs run --policy perf --tenant storage -- node app.js',
        'under another policy, as a named tenant',
      ],
    ],
    failed:
      'the program exited with 1. In the same way, run exits with any other status of the program, with 128 plus the ' +
      'number of the signal that ended it, with 127 if there is no such program, or with 126 if it cannot be executed',
    environment: ['ISOVERBS_DAEMON'],
    seeAlso: ['docs/daemon.md', 'docs/configuration.md', 'isoverbs daemon'],
  });
}
