/** `isoverbs daemon`: serves the processes of this host. */
import { isDeepStrictEqual } from 'node:util';
import type { Command } from 'commander';
import pino, { type Logger } from 'pino';
import { defaultSocket } from '../../daemon/client/default-socket.ts';
import { type DaemonConfig, readDaemonConfig } from '../../daemon/config.ts';
import { Daemon } from '../../daemon/daemon.ts';
import { Metrics } from '../../daemon/metrics/metrics.ts';
import { MetricsServer, metricsAddress } from '../../daemon/metrics/metrics-server.ts';
import { unreachable } from '../../daemon/rules.ts';
import { notifySystemd, reloading, type States, watchdogMs } from '../../daemon/systemd.ts';
import { getDeviceList, openDevice } from '../../open.ts';
import { ConfigError } from '../../verbs/errors.ts';
import { version } from '../../version.ts';
import { describe } from '../manual.ts';
import { masterRules } from '../master-rules.ts';

interface DaemonWords {
  config?: string;
  device?: string[];
  policy?: string;
  socket?: string;
  metrics?: string;
  checkConfig?: boolean;
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

/** What is in the file but holds from the next start on only. */
const AT_START = ['socket', 'mode', 'policy', 'metrics', 'limits', 'devices'] as const;

/** @throws ConfigError naming the file, and policy or key */
function checkedConfig(words: DaemonWords): { config: DaemonConfig; rules: ReturnType<typeof masterRules> } {
  const found = readDaemonConfig(words.config);
  const { policy, metrics } = words;
  const config = { ...found, policy: policy ?? found.policy, metrics: metrics ?? found.metrics };
  const isOfFile = (key: 'policy' | 'metrics') => words.config !== undefined && words[key] === undefined;
  if (config.metrics !== undefined) {
    const address = config.metrics;
    inFile(isOfFile('metrics') ? words.config : undefined, () => metricsAddress(address));
  }
  const rules = inFile(isOfFile('policy') ? words.config : undefined, () => masterRules(config.policy));
  return { config, rules };
}

/** Says of a configuration error in which file it is. */
function inFile<T>(file: string | undefined, make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (file === undefined || !(error instanceof ConfigError)) throw error;
    throw new ConfigError(`${file}: ${error.message}`);
  }
}

/** What can be said of a configuration that is right, and is not what somebody wants. */
function remarks({ rules }: DaemonConfig): string[] {
  return unreachable(rules).map(
    ({ rule, by }) => `rules.${rule} never decides anything: rules.${by}, before it, takes all that it fits`,
  );
}

function check(words: DaemonWords, config: DaemonConfig, socket: string): void {
  const file = words.config ?? 'no file';
  for (const remark of remarks(config)) process.stderr.write(`isoverbs: ${file}: ${remark}\n`);
  process.stdout.write(`${file}: ${config.rules.length} rules; the socket is ${socket}\n`);
}

/** Of the log, in memory. */
const MOST_UNWRITTEN = 1 << 20;

function logOf(level: string): Logger {
  const lines = pino.destination({ dest: 2, sync: true, maxLength: MOST_UNWRITTEN });
  // A disk that is full, or a reader that has gone: lines are lost, and nothing else.
  lines.on('error', () => {});
  return pino({ name: 'isoverbs', level: level === 'warn' ? 'info' : level }, lines);
}

/** The rules of the file as it is now; what cannot be changed is said. Wrong ones change nothing. */
function reload(daemon: Daemon, words: DaemonWords, running: DaemonConfig, log: Logger): void {
  try {
    const { config } = checkedConfig(words);
    const later = AT_START.filter((key) => !isDeepStrictEqual(config[key], running[key]));
    daemon.reload(config);
    log.info({ rules: config.rules.length }, 'the rules were read again');
    for (const remark of remarks(config)) log.warn(remark);
    if (later.length > 0) log.warn({ keys: later }, `${later.join(', ')}: from the next start on`);
  } catch (error) {
    log.error(`${(error as Error).message}: the rules stay as they were`);
  }
}

async function serve(words: DaemonWords, level: string): Promise<void> {
  const { config, rules } = checkedConfig(words);
  const socket = words.socket ?? config.socket ?? defaultSocket();
  if (words.checkConfig) return check(words, config, socket);
  const log = logOf(level);
  const linkGbps = linkRates(words.device, (device) => {
    if (config.devices[device] !== undefined) return;
    log.warn(
      { device },
      `${device} does not tell the rate of its link: give devices.${device}.linkGbps, or nothing is shared there by weight`,
    );
  });
  for (const remark of remarks(config)) log.warn(remark);
  let metrics: Metrics | null = null;
  const passed = (tookNs: number) => metrics?.passed(tookNs);
  const daemon = new Daemon({ socket, config, rules, log, linkGbps, passed });
  const ending = new Promise<string>((resolve) => {
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => resolve(name));
  });
  const tell = (states: States) => {
    const why = notifySystemd(states);
    if (why !== '') log.warn(`systemd is not told: ${why}`);
  };
  const ready = { READY: 1, STATUS: `listening on ${socket}` };
  process.on('SIGHUP', () => {
    tell(reloading());
    reload(daemon, words, config, log);
    tell(ready);
  });
  daemon.listen();
  let page: MetricsServer | null = null;
  if (config.metrics !== undefined) {
    try {
      metrics = new Metrics(await import('prom-client'), version(), daemon.source);
      page = new MetricsServer(metrics);
      const url = await page.listen(metricsAddress(config.metrics));
      log.info({ url }, 'metrics');
    } catch (error) {
      daemon.close();
      throw error;
    }
  }
  log.info({ socket, policy: config.policy }, 'listening');
  tell(ready);
  const everyMs = watchdogMs();
  if (everyMs !== null) setInterval(() => tell({ WATCHDOG: 1 }), everyMs).unref();
  const signal = await ending;
  tell({ STOPPING: 1 });
  page?.close();
  daemon.close();
  log.info(`${signal}: clients keep what they were granted last`);
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
    .option('--metrics <[address:]port>', 'serve metrics for Prometheus there, on the loopback only')
    .option('--check-config', 'only say whether the configuration is right')
    .action((words: DaemonWords) => serve(words, level()));
  describe(sub, {
    about:
      'Runs until it is stopped; SIGHUP reads the configuration again. Programs under `isoverbs run`, or with ' +
      'ISOVERBS_DAEMON, meet at it, and it says who gets what. When it ends they keep what they were granted last.',
    examples: [
      ['isoverbs daemon --check-config', 'where it would listen'],
      ['isoverbs daemon --policy perf', 'runs it'],
      ['isoverbs daemon --policy perf --metrics 9464', 'and tells Prometheus'],
    ],
    failed: 'the socket is taken, or a device cannot be opened',
    seeAlso: [
      'docs/daemon.md',
      'docs/operations.md',
      'isoverbs run',
      'isoverbs top',
      'isoverbs tenants',
      'isoverbs set',
    ],
  });
}
