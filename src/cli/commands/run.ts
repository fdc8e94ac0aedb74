/** `isoverbs run`: a program as a tenant of this host. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { type Connection, connect } from '../../daemon/client/connection.ts';
import { defaultSocket } from '../../daemon/client/default-socket.ts';
import { CLASSES } from '../../daemon/rules.ts';
import { describe } from '../manual.ts';

interface RunWords {
  policy?: string;
  tenant?: string;
  weight?: number;
  class?: string;
  socket?: string;
}

/** What the daemon runs; without one '', and a warning. */
function daemonPolicy(socket: string): Promise<string> {
  return new Promise((resolve) => {
    const on = {
      answered(connection: Connection) {
        connection.close();
        resolve(connection.welcome.policy);
      },
      heard() {},
      rang() {},
      ended(error: Error) {
        process.stderr.write(
          `isoverbs: no daemon at ${socket} (${error.message}), and no --policy: the program runs without\n`,
        );
        resolve('');
      },
    };
    connect(socket, { role: 'tool' }, on, true);
  });
}

const PASSED_ON = ['SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2', 'SIGCONT'] as const;
/** As shells have them. */
const NOT_RUNNABLE = 126;
const NOT_FOUND = 127;

/** @throws ConfigError for what the program could not start with */
async function requirePolicy(policy: string): Promise<void> {
  const { masterRules } = await import('../master-rules.ts');
  masterRules(policy);
}

/** Starts a program that has the policy, the daemon, and its children too. @returns its exit code */
async function runProgram([command, ...args]: string[], words: RunWords): Promise<number> {
  const { socket = defaultSocket(), tenant, weight, class: declared } = words;
  const policy = words.policy ?? (await daemonPolicy(socket));
  if (policy !== '') await requirePolicy(policy);
  const register = new URL('../../register.js', import.meta.url).href;
  const env = {
    ...process.env,
    NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ''} --import=${register}`.trim(),
    ISOVERBS_DAEMON: socket,
    ...(policy !== '' && { ISOVERBS_POLICY: policy }),
    ...(tenant !== undefined && { ISOVERBS_TENANT: tenant }),
    ...(weight !== undefined && { ISOVERBS_WEIGHT: String(weight) }),
    ...(declared !== undefined && { ISOVERBS_CLASS: declared }),
  };
  const child = spawn(command, args, { stdio: 'inherit', env });
  for (const signal of PASSED_ON) process.on(signal, () => passOn(signal, child));
  return new Promise((resolve) => {
    child.once('error', (error: NodeJS.ErrnoException) => {
      process.stderr.write(`isoverbs: ${command} cannot be started: ${error.message}\n`);
      resolve(error.code === 'ENOENT' ? NOT_FOUND : NOT_RUNNABLE);
    });
    child.once('exit', (code, signal) =>
      resolve(code ?? 128 + (constants.signals[signal ?? 'SIGTERM'] ?? 0)),
    );
  });
}

/** Ctrl-C and the like reach everybody in the foreground of a terminal: a second one would be one too many. */
function passOn(signal: NodeJS.Signals, child: ChildProcess): void {
  const isOfKeys = signal === 'SIGINT' || signal === 'SIGQUIT';
  if (!isOfKeys || !isInForeground()) child.kill(signal);
}

/** Whether this process is of the group that its terminal sends signals to (man proc_pid_stat). */
function isInForeground(): boolean {
  try {
    const stat = readFileSync('/proc/self/stat', 'utf8');
    const [, , , group, , , foreground] = stat.slice(stat.lastIndexOf(')') + 1).split(' ');
    return group === foreground;
  } catch {
    return false;
  }
}

const LEAST_WEIGHT = 1e-3;
const MOST_WEIGHT = 1e6;
const LONGEST_NAME = 128;

/** What the daemon takes. @throws InvalidArgumentError */
function weight(text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && value >= LEAST_WEIGHT && value <= MOST_WEIGHT) return value;
  throw new InvalidArgumentError(`It is a number from ${LEAST_WEIGHT} to ${MOST_WEIGHT}.`);
}

/** @throws InvalidArgumentError */
function name(text: string): string {
  if (text.length > 0 && text.length <= LONGEST_NAME) return text;
  throw new InvalidArgumentError(`It has 1 to ${LONGEST_NAME} characters.`);
}

/** Adds `run` to the command. */
export function addRun(command: Command): void {
  const sub = command
    .command('run')
    .description('run a Node.js program, and its children, as a tenant of this host')
    .argument('<command...>', 'the program and its arguments')
    .option(
      '--policy <policy[:option[=value],...]>',
      "a policy, with options as in ISOVERBS_POLICY; default: the daemon's",
    )
    .option('--tenant <tenant>', 'whom it works for', name)
    .option('--weight <number>', 'of its share', weight)
    .addOption(new Option('--class <class>', 'what it is taken for').choices(CLASSES))
    .option('--socket <path>', 'the socket of the daemon')
    .passThroughOptions()
    .action(async (words: string[], options: RunWords) => {
      process.exitCode = await runProgram(words, options);
    });
  describe(sub, {
    about:
      'Starts the program with a policy and the daemon in its environment; the program is not changed. ' +
      'Without a daemon it runs all the same, and stderr says so. Signals go to the program.',
    examples: [
      ['isoverbs run -- node app.js', "under the daemon's policy"],
      ['isoverbs run --policy perf --tenant storage -- node app.js', 'under another one, as a tenant'],
    ],
    failed:
      'the program ended so; its status is passed on: 128 and the number of a signal that ended it, 127 if there is ' +
      'no such program, 126 if it cannot be run',
    seeAlso: ['docs/daemon.md', 'docs/configuration.md', 'isoverbs daemon'],
  });
}
