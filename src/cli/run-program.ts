/** `isoverbs run`: a program as a tenant of this host. */
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { type Command, Option } from 'commander';
import { defaultSocket } from '../daemon/config.ts';
import { type Connection, connect } from '../daemon/connection.ts';
import { CLASSES } from '../daemon/rules.ts';
import { ConfigError } from '../verbs/errors.ts';
import { masterRules } from './daemon.ts';
import { describe } from './manual.ts';
import { positive } from './numbers.ts';

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

/** Starts a program that has the policy, the daemon, and its children too. @returns its exit code */
async function runProgram([command, ...args]: string[], words: RunWords): Promise<number> {
  const { socket = defaultSocket(), tenant, weight, class: declared } = words;
  const policy = words.policy ?? (await daemonPolicy(socket));
  if (policy !== '') masterRules(policy);
  const register = new URL('../register.js', import.meta.url).href;
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
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal));
  return new Promise((resolve, reject) => {
    child.once('error', (error) => reject(new ConfigError(`${command} cannot be started: ${error.message}`)));
    child.once('exit', (code, signal) =>
      resolve(code ?? 128 + (constants.signals[signal ?? 'SIGTERM'] ?? 0)),
    );
  });
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
    .option('--tenant <tenant>', 'whom it works for')
    .option('--weight <number>', 'of its share', positive)
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
      'the program ended so; its status is passed on, and is 128 and the number of a signal that ended it',
    seeAlso: ['docs/configuration.md', 'isoverbs daemon'],
  });
}
