/** `isoverbs daemon`: coordinates the processes of this host. */
import { dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { type Command, Option } from 'commander';
import pino, { type Logger } from 'pino';
import { busyCpuOf } from '../../daemon/busy-cpu.ts';
import { socketOf } from '../../daemon/client/tool-request.ts';
import { type DaemonConfig, readDaemonConfig } from '../../daemon/config.ts';
import { Daemon, prepareFolder } from '../../daemon/daemon.ts';
import type { Ruling } from '../../daemon/devices.ts';
import { withAbsoluteFiles, withServers } from '../../daemon/fleet/config.ts';
import { unreachable } from '../../daemon/identity/reachability.ts';
import { readRegularFile } from '../../daemon/identity/regular-file.ts';
import { requireSocketPath } from '../../daemon/ipc/socket-path.ts';
import { metricsAddress } from '../../daemon/metrics/address.ts';
import { Metrics } from '../../daemon/metrics/metrics.ts';
import { MetricsServer } from '../../daemon/metrics/metrics-server.ts';
import { notifySystemd, reloading, type States, watchdogMs } from '../../daemon/systemd.ts';
import { getDeviceList, openDevice, type ProviderName, providerFor } from '../../open.ts';
import type { AgentKind } from '../../policies/index.ts';
import { defaultSoftProvider, isSoftAvailable } from '../../providers/soft/index.ts';
import { ConfigError } from '../../verbs/errors.ts';
import type { NicFacts } from '../../verbs/nic.ts';
import type { Provider } from '../../verbs/provider.ts';
import { version } from '../../version.ts';
import { escapedLines } from '../escape.ts';
import { describe } from '../manual.ts';
import { agentsOf, rulingsOf, withAbsolutePaths } from '../rulings.ts';
import { PROVIDERS } from '../values.ts';

interface DaemonFlags {
  config?: string;
  device?: string[];
  provider?: ProviderName;
  policy?: string;
  socket?: string;
  metrics?: string[];
  fleet?: string;
  agent?: string[];
  busy?: string;
  checkConfig?: boolean;
}

interface KnownDevice {
  readonly nic: NicFacts | null;
  readonly provider: Provider;
}

/**
 * Present devices, by name. Those of user-space RoCE are not opened, because their sockets belong to the programs.
 * @throws NoDeviceError for a named device, or a provider, that is missing
 */
function knownDevices(
  { device: names, provider: wanted }: DaemonFlags,
  unknown: (device: string) => void,
): Map<string, KnownDevice> {
  const known = new Map<string, KnownDevice>();
  if (wanted === 'soft' && names === undefined) return withSoft(known);
  const present = wanted === undefined ? getDeviceList() : providerFor(wanted).getDeviceList();
  const soft = new Set(present.filter(({ provider }) => provider === 'soft').map(({ name }) => name));
  for (const name of names ?? present.map((device) => device.name)) {
    if (soft.has(name)) {
      known.set(name, { nic: null, provider: defaultSoftProvider() });
      continue;
    }
    const context = openDevice(name, { policy: null, provider: wanted });
    const { provider, handle } = context;
    // With the facts of ISOVERBS_FACTS.
    const nic = provider.describeNic?.(handle) ?? null;
    if (!nic?.linkGbps) unknown(name);
    known.set(name, { nic, provider });
    context.close();
  }
  const isLimited = names !== undefined || wanted !== undefined || process.env.ISOVERBS_PROVIDER;
  return isLimited || !isSoftAvailable() ? known : withSoft(known);
}

/** Adds the devices of user-space RoCE. @throws UnsupportedError without the addon */
function withSoft(known: Map<string, KnownDevice>): Map<string, KnownDevice> {
  const provider = defaultSoftProvider();
  for (const { name } of provider.getDeviceList()) known.set(name, { nic: null, provider });
  return known;
}

/** The provider that programs should prefer: without a real device, only user-space RoCE connects processes. */
function preferredProvider(known: ReadonlyMap<string, KnownDevice>): string {
  const names = new Set([...known.values()].map(({ provider }) => provider.name));
  return names.has('soft') && !names.has('rdma-core') ? 'soft' : '';
}

const PREFERS_SOFT =
  'there is no RDMA device: programs that `isoverbs run` starts open soft0 (user-space RoCE) by default; ' +
  '--provider sim selects simulated devices';

/** Keys of the file that take effect only at the next start. */
const AT_START = [
  'socket',
  'mode',
  'policy',
  'busy',
  'metrics',
  'limits',
  'subuid',
  'fleet',
  'devices',
] as const;

/** @throws ConfigError naming the file, and the policy or key */
function checkedConfig(flags: DaemonFlags): {
  config: DaemonConfig;
  rulings: Ruling[];
  agents: AgentKind[];
} {
  const fileConfig = readDaemonConfig(flags.config);
  const { policy, metrics } = flags;
  const folder = flags.config === undefined || policy !== undefined ? '.' : dirname(flags.config);
  const config = {
    ...fileConfig,
    policy: withAbsolutePaths(policy ?? fileConfig.policy, folder),
    busy: flags.busy === undefined ? fileConfig.busy : busyCpuOf(flags.busy, '--busy'),
    metrics: metrics ?? fileConfig.metrics,
    fleet: fleetOf(flags, fileConfig),
  };
  const isFromFile = (key: 'policy' | 'metrics') => flags.config !== undefined && flags[key] === undefined;
  if (config.metrics !== undefined) {
    const addresses = config.metrics;
    inFile(isFromFile('metrics') ? flags.config : undefined, () => addresses.map(metricsAddress));
  }
  const parts = inFile(isFromFile('policy') ? flags.config : undefined, () => ({
    rulings: rulingsOf(config.policy),
    agents: agentsOf(config.policy),
  }));
  return { config, ...parts };
}

/** @throws ConfigError */
function fleetOf({ config: file, fleet }: DaemonFlags, fromFile: DaemonConfig): DaemonConfig['fleet'] {
  const config = fleet === undefined ? fromFile.fleet : withServers(fleet, fromFile.fleet);
  return config && inFile(file, () => withAbsoluteFiles(config, file === undefined ? '.' : dirname(file)));
}

/** Adds the name of the file to a configuration error. */
function inFile<T>(file: string | undefined, make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (file === undefined || !(error instanceof ConfigError)) throw error;
    throw new ConfigError(`${file}: ${error.message}`);
  }
}

/** Remarks on a configuration that is valid but probably not what was meant. */
function remarks({ rules }: DaemonConfig): string[] {
  return unreachable(rules).map(
    ({ rule, by }) =>
      `rules.${rule} never decides anything, because rules.${by} before it matches all its clients`,
  );
}

function check(flags: DaemonFlags, config: DaemonConfig, socket: string): void {
  const file = flags.config ?? 'no file';
  if (config.subuid !== undefined) readRegularFile(config.subuid);
  for (const remark of remarks(config)) process.stderr.write(`isoverbs: ${file}: ${remark}\n`);
  process.stdout.write(`${file}: ${config.rules.length} rules; the socket is ${socket}\n`);
}

/** The limit for log lines in memory. */
const MOST_UNWRITTEN = 1 << 20;

function logOf(level: string): Logger {
  const lines = pino.destination({ dest: 2, sync: true, maxLength: MOST_UNWRITTEN });
  // If the disk is full or the reader has disappeared, only log lines are lost.
  lines.on('error', () => {});
  // Lines are JSON, which keeps its meaning.
  const hooks = { streamWrite: escapedLines };
  return pino({ name: 'isoverbs', level: level === 'warn' ? 'info' : level, hooks }, lines);
}

/** Applies the current rules of the file, and logs changes that require a restart. Invalid rules change nothing. */
function reload(daemon: Daemon, flags: DaemonFlags, running: DaemonConfig, log: Logger): void {
  try {
    const { config } = checkedConfig(flags);
    const pendingKeys = AT_START.filter((key) => !isDeepStrictEqual(config[key], running[key]));
    daemon.reload(config);
    log.info({ event: 'rules-reloaded', rules: config.rules.length }, 'reloaded the rules');
    for (const remark of remarks(config)) log.warn({ event: 'rule-unreachable' }, remark);
    if (pendingKeys.length > 0)
      log.warn(
        { event: 'restart-required', keys: pendingKeys },
        `${pendingKeys.join(', ')}: changes take effect at the next start`,
      );
  } catch (error) {
    log.error({ event: 'rules-invalid' }, `${(error as Error).message}: the rules stay unchanged`);
  }
}

/** @throws ConnectionError, ConfigError, InvalidArgumentError for an address on which it cannot listen */
async function serveMetrics(
  metrics: Metrics,
  addresses: readonly string[],
  daemon: Daemon,
  mode: number,
  log: Logger,
): Promise<MetricsServer> {
  const server = new MetricsServer(metrics, { mode, ownerOf: (uid) => daemon.ownerOf(uid) });
  try {
    for (const address of addresses.map(metricsAddress)) {
      if ('path' in address) prepareFolder(address.path, '--metrics');
      log.info({ event: 'metrics-listening', url: await server.listen(address) }, 'metrics');
    }
    return server;
  } catch (error) {
    server.close();
    throw error;
  }
}

/** Where the path of the socket was set, or for the default one, where another one may be set. */
function sourceOfSocket(flags: DaemonFlags, config: DaemonConfig): string {
  if (flags.socket !== undefined) return '--socket';
  if (config.socket !== undefined) return `${flags.config}: socket`;
  return process.env.ISOVERBS_DAEMON ? 'ISOVERBS_DAEMON' : '--socket';
}

async function serve(flags: DaemonFlags, level: string): Promise<void> {
  const { config, rulings, agents } = checkedConfig(flags);
  const socket = flags.socket ?? config.socket ?? socketOf();
  requireSocketPath(socket, sourceOfSocket(flags, config));
  if (flags.checkConfig) return check(flags, config, socket);
  const log = logOf(level);
  const known = knownDevices(flags, (device) => {
    if (config.devices[device] !== undefined) return;
    log.warn(
      { event: 'link-rate-unknown', device },
      `the link rate of ${device} is unknown; set devices.${device}.linkGbps, otherwise its link is not shared by weight`,
    );
  });
  for (const remark of remarks(config)) log.warn({ event: 'rule-unreachable' }, remark);
  const provider = preferredProvider(known);
  let metrics: Metrics | null = null;
  const onPass = (durationNs: number) => metrics?.observePass(durationNs);
  const daemon = new Daemon({
    ...{ socket, config, rulings, agents, log, onPass },
    provider,
    devices: [...known.keys()],
    providerOf: (device) => known.get(device)!.provider,
    linkGbps: (device) => (known.has(device) ? (known.get(device)!.nic?.linkGbps ?? 0) : null),
    nicOf: (device) => known.get(device)?.nic ?? null,
    isSimulated: (device) => known.get(device)?.provider.name === 'sim',
  });
  const ending = new Promise<string>((resolve) => {
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => resolve(name));
  });
  const notify = (states: States) => {
    const error = notifySystemd(states);
    if (error !== '') log.warn({ event: 'systemd-unreachable' }, `systemd could not be notified: ${error}`);
  };
  const ready = { READY: 1, STATUS: `listening on ${socket}` };
  process.on('SIGHUP', () => {
    notify(reloading());
    reload(daemon, flags, config, log);
    notify(ready);
  });
  daemon.listen();
  try {
    daemon.openAgents(flags.agent ?? []);
  } catch (error) {
    daemon.close();
    throw error;
  }
  let metricsServer: MetricsServer | null = null;
  if (config.metrics !== undefined) {
    try {
      metrics = new Metrics(await import('prom-client'), version(), daemon.metricsSource);
      metricsServer = await serveMetrics(metrics, config.metrics, daemon, config.mode, log);
    } catch (error) {
      daemon.close();
      throw error;
    }
  }
  if (provider === 'soft') log.info({ event: 'prefers-soft' }, PREFERS_SOFT);
  log.info({ event: 'listening', socket, policy: config.policy, busy: config.busy }, 'listening');
  notify(ready);
  const everyMs = watchdogMs();
  if (everyMs !== null) setInterval(() => notify({ WATCHDOG: 1 }), everyMs).unref();
  const signal = await ending;
  notify({ STOPPING: 1 });
  metricsServer?.close();
  daemon.close();
  log.info({ event: 'stopping', signal }, `${signal}: stopping; clients keep their last grants`);
}

/** Adds `daemon` to the command; `level` returns the log level. */
export function addDaemon(command: Command, level: () => string): void {
  const sub = command
    .command('daemon')
    .description('coordinate the processes of this host that share its devices')
    .option('--config <file>', 'the configuration file: rules and limits')
    .option('--device <device...>', 'devices to coordinate (default: all)')
    .addOption(
      new Option('--provider <provider>', 'coordinate only devices of this provider (default: all)').choices(
        PROVIDERS,
      ),
    )
    .option(
      '--policy <policy[:option[=value],...]>',
      'policy for clients that do not name one, with options as in ISOVERBS_POLICY',
    )
    .option('--socket <path>', 'the socket to listen on')
    .option(
      '--metrics <address...>',
      'serve metrics for Prometheus here: a port, a loopback address with a port, or the path of a socket',
    )
    .option(
      '--fleet <urls>',
      'NATS servers, separated by commas, that connect this daemon to those of other hosts',
    )
    .option(
      '--agent <device...>',
      'open these devices for agents when the daemon starts, and exit if that fails',
    )
    .option('--busy <cpu>', 'run on this CPU without sleeping while there are clients, and hand out tokens')
    .option('--check-config', 'check the configuration and exit')
    .action((flags: DaemonFlags) => serve(flags, level()));
  describe(sub, {
    about:
      'Runs until it is stopped; SIGHUP reloads the rules. Programs started with `isoverbs run`, or with ISOVERBS_DAEMON ' +
      'set, connect to the daemon, which decides what each of them gets. When the daemon ends, they keep their last grants. ' +
      'Without an RDMA device, programs that `isoverbs run` starts open soft0 (user-space RoCE) by default.',
    examples: [
      ['isoverbs daemon --check-config', 'check the configuration, and print the socket'],
      ['isoverbs daemon --policy perf', 'run the daemon'],
      ['isoverbs daemon --policy perf --metrics 9464', 'with metrics for Prometheus'],
      [
        'isoverbs daemon --policy perf --fleet nats://10.0.0.1:4222 --agent sim0',
        'join a fleet, and open sim0 for agents at once',
      ],
    ],
    failed: 'the socket is in use, or a device cannot be opened',
    environment: ['ISOVERBS_DAEMON', 'ISOVERBS_FACTS'],
    seeAlso: [
      'docs/daemon.md',
      'docs/operations.md',
      'docs/fleet.md',
      'isoverbs run',
      'isoverbs top',
      'isoverbs tenants',
      'isoverbs set',
    ],
  });
}
