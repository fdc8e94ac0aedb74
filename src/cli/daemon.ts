/** `isoverbs daemon`: serves the processes of this host. */
import { spawn } from 'node:child_process';
import type { Command } from 'commander';
import pino from 'pino';
import { parsePolicies } from '../config.ts';
import { defaultSocket, readDaemonConfig } from '../daemon/config.ts';
import { Daemon } from '../daemon/daemon.ts';
import { getDeviceList, openDevice } from '../open.ts';
import { checkedOptions } from '../policies/check.ts';
import { createPolicy } from '../policies/index.ts';
import { perfOptions } from '../policies/perf/options.ts';
import { describe } from './manual.ts';

interface DaemonWords {
  config?: string;
  device?: string[];
  policy?: string;
  socket?: string;
  checkConfig?: boolean;
}

/** What the master of a policy depends on: that of `perf`, by its options if the daemon runs it. @throws ConfigError */
export function masterRules(policy: string) {
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

/** Adds `daemon` to the command; `level` tells what to log. */
export function addDaemon(command: Command, level: () => string): void {
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
