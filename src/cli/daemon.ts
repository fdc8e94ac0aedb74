/** `isoverbs daemon`, and what asks it: `tenants`, `set`, `run`. */
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import Table from 'cli-table3';
import { type Command, InvalidArgumentError, Option } from 'commander';
import pino from 'pino';
import { parsePolicies } from '../config.ts';
import { defaultSocket, readDaemonConfig } from '../daemon/config.ts';
import { type Connection, connect } from '../daemon/connection.ts';
import { Daemon } from '../daemon/daemon.ts';
import type { TenantRow, ToClient, ToDaemon } from '../daemon/protocol.ts';
import { CLASSES } from '../daemon/rules.ts';
import { getDeviceList, openDevice } from '../open.ts';
import { checkedOptions } from '../policies/check.ts';
import { createPolicy } from '../policies/index.ts';
import { perfOptions } from '../policies/perf/options.ts';
import { ConfigError, HandshakeError } from '../verbs/errors.ts';
import { describe } from './manual.ts';

/** A daemon that is stopped does not keep who asks it waiting. */
const ANSWER_MS = 5000;

interface DaemonWords {
  config?: string;
  device?: string[];
  policy?: string;
  socket?: string;
  checkConfig?: boolean;
}

/** What the master of a policy depends on: that of `perf`, by its options if the daemon runs it. @throws ConfigError */
function masterRules(policy: string) {
  const list = policy === '' ? [] : parsePolicies(policy, 'policy');
  for (const { name, options } of list) createPolicy(name, options);
  const found = list.find(({ name }) => name === 'perf')?.options ?? {};
  const { qNumAllow, qNumCapa, paper } = checkedOptions('perf', perfOptions, found);
  return { qNumAllow, qNumCapa, selective: paper };
}

/** Rates of the links of the devices that are here. @throws NoDeviceError for one that is not */
function linkRates(
  names: readonly string[] | undefined,
  unknown: (device: string) => void,
): (device: string) => number | null {
  const known = new Map<string, number>();
  for (const name of names ?? getDeviceList().map((device) => device.name)) {
    const context = openDevice(name, { policy: null });
    const linkGbps = context.provider.describeNic?.(context.handle)?.linkGbps ?? 0;
    if (linkGbps === 0) unknown(name);
    known.set(name, linkGbps);
    context.close();
  }
  return (device) => known.get(device) ?? null;
}

async function serve(words: DaemonWords, level: string): Promise<void> {
  const read = () => {
    const config = readDaemonConfig(words.config);
    return words.policy === undefined ? config : { ...config, policy: words.policy };
  };
  const config = read();
  const rules = masterRules(config.policy);
  const socket = words.socket ?? config.socket ?? defaultSocket();
  if (words.checkConfig) {
    process.stdout.write(
      `${words.config ?? 'no file'}: ${config.rules.length} rules; the socket is ${socket}\n`,
    );
    return;
  }
  const log = pino(
    { name: 'isoverbs', level: level === 'warn' ? 'info' : level },
    pino.destination({ dest: 2, sync: true }),
  );
  const linkGbps = linkRates(words.device, (device) => {
    if (config.devices[device] !== undefined) return;
    log.warn(
      { device },
      `${device} does not tell the rate of its link: give devices.${device}.linkGbps, or nothing is shared there by weight`,
    );
  });
  const daemon = new Daemon({ socket, config, rules, log, linkGbps });
  daemon.listen();
  log.info({ socket, policy: config.policy }, 'listening');
  notify('READY=1');
  process.on('SIGHUP', () => {
    try {
      daemon.reload(read());
      log.info('the rules were read again');
    } catch (error) {
      log.error(`${(error as Error).message}: the rules stay as they were`);
    }
  });
  const signal = await new Promise<string>((resolve) => {
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => resolve(name));
  });
  notify('STOPPING=1');
  daemon.close();
  log.info(`${signal}: clients keep what they were granted last`);
}

/** Tells systemd, if it started us. */
function notify(state: string): void {
  if (!process.env.NOTIFY_SOCKET) return;
  spawn('systemd-notify', [`--pid=${process.pid}`, state], { stdio: 'ignore' }).on('error', () => {});
}

/**
 * One question to the daemon, and the last of its answers.
 * @param isMore whether another one comes after this
 * @throws HandshakeError
 */
function ask(socket: string, question: ToDaemon, isMore = (_answer: ToClient) => false): Promise<ToClient> {
  return new Promise((resolve, reject) => {
    let connection: Connection | null = null;
    const timer = setTimeout(() => {
      connection?.close();
      reject(new HandshakeError(`${socket}: the daemon does not answer`));
    }, ANSWER_MS);
    const on = {
      answered(one: Connection) {
        connection = one;
        one.say(question);
      },
      heard(message: ToClient) {
        if (isMore(message)) return;
        clearTimeout(timer);
        connection?.close();
        resolve(message);
      },
      rang() {},
      ended(error: Error) {
        clearTimeout(timer);
        reject(new HandshakeError(`${socket}: ${error.message}; is \`isoverbs daemon\` running?`));
      },
    };
    connect(socket, { role: 'tool' }, on, true);
  });
}

/** The list comes in pieces. */
async function askTenants(socket: string): Promise<TenantRow[]> {
  const rows: TenantRow[] = [];
  const answer = await ask(socket, { type: 'tenants' }, (message) => {
    if (message.type === 'tenants') rows.push(...message.rows);
    return message.type === 'tenants' && message.more;
  });
  if (answer.type !== 'tenants') throw new HandshakeError(`the daemon answered '${answer.type}'`);
  return rows;
}

const number = (value: number) => (value === 0 ? '-' : value.toFixed(2));

function tableOf(rows: readonly TenantRow[]): string {
  const head = ['device', 'tenant', 'class', 'why', 'processes', 'QPs', 'Gbit/s', 'may', 'weight'];
  const table = new Table({ head, style: { head: [], border: [] } });
  for (const row of rows) {
    const share = row.gbps === null ? `${row.weight}` : `${row.gbps} Gbit/s`;
    const { device, tenant, why, processes, qps } = row;
    table.push([
      device,
      tenant,
      row.class,
      why,
      processes,
      qps,
      number(row.wireGbps),
      number(row.rateGbps),
      share,
    ]);
  }
  return table.toString();
}

async function listTenants({
  socket = defaultSocket(),
  json,
}: {
  socket?: string;
  json?: boolean;
}): Promise<void> {
  const rows = await askTenants(socket);
  process.stdout.write(`${json ? JSON.stringify(rows, null, 2) : tableOf(rows)}\n`);
}

/** `weight=3`, `gbps=10`, `gbps=share`. @throws ConfigError */
function settings(words: readonly string[]): { weight?: number; gbps?: number | null } {
  const found: { weight?: number; gbps?: number | null } = {};
  for (const word of words) {
    const [key, text = ''] = word.split('=');
    const value = Number(text);
    const isNumber = text !== '' && Number.isFinite(value) && value > 0;
    if (key === 'gbps' && text === 'share') found.gbps = null;
    else if ((key === 'weight' || key === 'gbps') && isNumber) found[key] = value;
    else
      throw new ConfigError(
        `'${word}': set weight=NUMBER, gbps=NUMBER, or gbps=share for a share by weight again`,
      );
  }
  return found;
}

async function set(
  tenant: string,
  words: string[],
  { socket = defaultSocket() }: { socket?: string },
): Promise<void> {
  const answer = await ask(socket, { type: 'set', tenant, ...settings(words) });
  if (answer.type === 'refused') throw new Error(answer.reason);
}

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

function weightOf(text: string): number {
  const value = Number(text);
  if (!(value > 0 && Number.isFinite(value))) throw new InvalidArgumentError('It is a number above 0.');
  return value;
}

/** Adds the commands; `level` tells what to log. */
export function addDaemon(command: Command, level: () => string): void {
  addServe(command, level);
  addTenants(command);
  addSet(command);
  addRun(command);
}

function addServe(command: Command, level: () => string): void {
  const sub = command
    .command('daemon')
    .description('let the processes of this host share its devices')
    .option('--config <file>', 'rules and limits')
    .option('--device <device...>', 'devices that it shares; all if nothing is said')
    .option(
      '--policy <policy[:option[=value],...]>',
      'what clients run that name none, with options as in ISOVERBS_POLICY',
    )
    .option('--socket <path>', 'where it listens')
    .option('--check-config', 'only say whether the configuration is right')
    .action((words: DaemonWords) => serve(words, level()));
  describe(sub, {
    about:
      'Runs until it is stopped; SIGHUP reads the configuration again. Programs under `isoverbs run`, or with ' +
      'ISOVERBS_DAEMON, meet at it, and it says who gets what. When it ends they keep what they were granted last.',
    examples: [
      ['isoverbs daemon --check-config', 'where it would listen'],
      ['isoverbs daemon --policy perf', 'runs it'],
    ],
    failed: 'the socket is taken, or a device cannot be opened',
    seeAlso: ['isoverbs run', 'isoverbs tenants', 'isoverbs set'],
  });
}

function addTenants(command: Command): void {
  const sub = command
    .command('tenants')
    .description('list who shares the devices of this host, and what each gets')
    .option('--socket <path>', 'the socket of the daemon')
    .option('--json', 'print JSON')
    .action(listTenants);
  describe(sub, {
    about:
      'Asks the daemon for the tenants of each device: what they are taken for and why, and their rates.',
    examples: [
      ['isoverbs tenants', 'for people'],
      ['isoverbs tenants --json', 'for programs'],
    ],
    failed: 'no daemon answers',
    seeAlso: ['isoverbs daemon', 'isoverbs set'],
  });
}

function addSet(command: Command): void {
  const sub = command
    .command('set')
    .description('change what a tenant gets: weight=3, gbps=10, gbps=share')
    .argument('<tenant>', 'as `isoverbs tenants` names it')
    .argument('<setting...>', 'weight=NUMBER, gbps=NUMBER, or gbps=share: by weight again')
    .option('--socket <path>', 'the socket of the daemon')
    .action(set);
  describe(sub, {
    about: 'Gives a tenant another weight, or a rate of its own, until the daemon ends.',
    examples: [
      ['isoverbs set storage weight=3', 'three shares of the link'],
      ['isoverbs set storage gbps=10', 'a rate, instead of a share'],
    ],
    failed: 'no daemon answers, or it refuses',
    seeAlso: ['isoverbs daemon', 'isoverbs tenants'],
  });
}

function addRun(command: Command): void {
  const sub = command
    .command('run')
    .description('run a Node.js program, and its children, as a tenant of this host')
    .argument('<command...>', 'the program and its arguments')
    .option(
      '--policy <policy[:option[=value],...]>',
      "a policy, with options as in ISOVERBS_POLICY; default: the daemon's",
    )
    .option('--tenant <tenant>', 'whom it works for')
    .option('--weight <number>', 'of its share', weightOf)
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
