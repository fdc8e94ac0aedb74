/** The daemon: the coordinators of a host behind a socket, with a configuration that may change at run time. */
import { mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { performance } from 'node:perf_hooks';
import type { Logger } from 'pino';
import type { AgentKind } from '../coordinator/agent.ts';
import { pinThreadTo } from '../providers/rdma-core/addon.ts';
import { ConfigError, NoDeviceError } from '../verbs/errors.ts';
import type { NicFacts } from '../verbs/nic.ts';
import type { Provider } from '../verbs/provider.ts';
import type { ClientLimits } from './admission.ts';
import { DaemonAgents, FailureLog } from './agents.ts';
import type { DaemonConfig } from './config.ts';
import type { Ruling } from './devices.ts';
import { Fleet } from './fleet/fleet.ts';
import { Host } from './host.ts';
import { Owners } from './identity/owners.ts';
import { type PeerCredentials, type PeerProcess, procFile } from './ipc/index.ts';
import { processState } from './liveness.ts';
import { hwCounters } from './metrics/hw-counters.ts';
import type { MetricsSource } from './metrics/metrics.ts';
import type { Hello } from './protocol.ts';
import { type Identity, identify } from './rules.ts';
import { Server } from './server.ts';

export interface DaemonOptions {
  readonly socket: string;
  readonly config: DaemonConfig;
  /** The rulers of all policies that clients may have, with their rules. */
  readonly rulings: readonly Ruling[];
  /** The agents of these policies. */
  readonly agents?: readonly AgentKind[];
  readonly log: Logger;
  /** The provider whose devices programs should prefer. Default: none. */
  readonly provider?: string;
  /** The devices that agents may open. */
  readonly devices?: readonly string[];
  /** @throws IsoverbsError if there is no such device */
  providerOf?(device: string): Provider;
  /** The link rate of a device that the configuration does not name; null if there is no such device. */
  linkGbps(device: string): number | null;
  /** Whether a device is simulated in each process. Default: none is. */
  isSimulated?(device: string): boolean;
  /** What is known of a device's NIC; null: nothing. */
  nicOf?(device: string): NicFacts | null;
  /** Called after each pass with its duration. */
  onPass?(durationNs: number): void;
}

const ROOT = 0;
/**
 * Each client requires two descriptors, its socket and its wake-up, plus two for shared memory while it is
 * greeted. OWN_FDS are the daemon's own.
 */
const FDS_PER_CLIENT = 2;
const OWN_FDS = 64;

/**
 * Creates the folder of the socket. Other users can reach the socket inside but have no need to list the folder. Only the
 * last component is created, because a recursive mkdir never returns in /proc.
 * @throws ConfigError
 */
function makeFolder(folder: string, key: string): void {
  try {
    mkdirSync(folder, { mode: 0o711 });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return;
    throw new ConfigError(
      `the socket's folder ${folder} cannot be created: ${message}; choose another path with ${key}`,
    );
  }
}

/** A user who may rename files in the socket's folder could replace the socket. @throws ConfigError */
function requireOwnFolder(folder: string, key: string): void {
  const { uid, mode } = statSync(folder);
  const isOpen = (mode & 0o022) !== 0 && (mode & 0o1000) === 0;
  if ((uid === ROOT || uid === process.getuid?.()) && !isOpen) return;
  throw new ConfigError(
    `the socket's folder ${folder} belongs to user ${uid} and has permissions ${(mode & 0o7777).toString(8)}, so other users can change it; choose a path with ${key} whose folder only root or this user can change`,
  );
}

/** Prepares the folder of a socket of the daemon. @param key what sets the socket. @throws ConfigError */
export function prepareFolder(socket: string, key: string): void {
  makeFolder(dirname(socket), key);
  requireOwnFolder(dirname(socket), key);
}

function noProvider(device: string): never {
  throw new NoDeviceError(`the daemon cannot open ${device} for agents: it was started without devices`);
}

export class Daemon {
  private readonly options: DaemonOptions;
  private readonly host: Host;
  private readonly agents: DaemonAgents;
  private readonly fleet: Fleet | undefined;
  private readonly server: Server;
  private readonly owners: Owners;
  private config: DaemonConfig;

  constructor(options: DaemonOptions) {
    const { config, rulings, socket, log, agents = [], devices = [], providerOf = noProvider } = options;
    this.options = options;
    this.config = config;
    const failures = new FailureLog(log);
    const nowNs = () => performance.now() * 1e6;
    this.owners = new Owners({
      file: config.subuid,
      nowNs,
      failed: ({ message }) =>
        log.warn(
          { event: 'subuid-invalid' },
          `${message}: the ranges of subordinate user IDs stay unchanged`,
        ),
    });
    const linkGbps = (device: string) => this.config.devices[device]?.linkGbps ?? options.linkGbps(device);
    this.host = new Host({
      rulings,
      linkGbps,
      isSimulated: options.isSimulated,
      nicOf: (device) => {
        const nic = options.nicOf?.(device) ?? null;
        return nic && { ...nic, linkGbps: linkGbps(device) || null };
      },
      failed: (ruler, device, error) => failures.log(`ruler '${ruler}' of ${device}`, error),
      left: (device, row) => this.agents.left(device, row),
      decided: (device) => this.agents.decided(device),
      inspectProcess: processState,
    });
    const requestPass = () => this.server.requestPass();
    const { host } = this;
    const failed = (error: Error) => failures.log('a message of the fleet', error);
    this.fleet = config.fleet && new Fleet({ config: config.fleet, log, nowNs, failed });
    const { fleet } = this;
    this.agents = new DaemonAgents({
      kinds: agents,
      host,
      log,
      devices,
      providerOf,
      requestPass,
      nowNs,
      fleet,
    });
    this.server = new Server({
      socket,
      mode: config.mode,
      limits: this.limits(),
      host,
      agents: this.agents,
      policy: config.policy,
      provider: options.provider,
      isBusy: config.busy !== undefined,
      log,
      ownerOf: (uid) => this.owners.of(uid),
      identify: (credentials, hello, process) => this.identify(credentials, hello, process),
      maySet: (credentials) => this.maySet(credentials),
      onPass: options.onPass,
      nowNs,
    });
  }

  /** The limits of the configuration, reduced to what the system allows. */
  private limits(): ClientLimits {
    const { limits } = this.config;
    const maxFiles = /^Max open files +(\d+)/m.exec(procFile(process.pid, 'limits'))?.[1];
    const clients = Math.floor((Number(maxFiles ?? Number.POSITIVE_INFINITY) - OWN_FDS) / FDS_PER_CLIENT);
    if (clients >= limits.clients) return limits;
    this.options.log.warn(
      { event: 'few-open-files', clients },
      `the limit of ${maxFiles} open files is enough for ${clients} clients, not for ${limits.clients}; raise LimitNOFILE or ulimit -n`,
    );
    const reserved = Math.min(limits.reserved, clients >> 1);
    return { ...limits, clients, reserved };
  }

  /**
   * @throws ConfigError, ConnectionError, InvalidArgumentError if the socket cannot be created; ConfigError,
   * UnsupportedError if the thread cannot be pinned to the CPU of busy mode
   */
  listen(): void {
    const { socket } = this.options;
    if (this.config.busy !== undefined) pinThreadTo(this.config.busy, 'busy');
    prepareFolder(socket, '--socket');
    this.server.listen();
    this.fleet?.start();
  }

  /**
   * Opens devices for agents, which it otherwise does when a program first uses one.
   * @throws ConfigError, NoResourcesError if a device is not the daemon's, or cannot be opened
   */
  openAgents(devices: readonly string[]): void {
    this.agents.open(devices);
  }

  /** Applies new rules and a new trust list; clients stay connected. Other changes need a restart. */
  reload(config: DaemonConfig): void {
    this.config = config;
    this.server.reidentify();
  }

  close(): void {
    this.server.close();
    this.agents.close();
    void this.fleet?.close();
  }

  /** The data behind the metrics. */
  get metricsSource(): MetricsSource {
    return {
      tenants: () => this.host.tenants(),
      sentTotals: () => this.host.sentTotals(performance.now() * 1e6),
      counts: () => this.server.counts,
      devices: () => this.host.shownDevices(),
      hwCounters: (devices) => hwCounters(devices),
      fleet: this.fleet && (() => this.fleet!.counts),
    };
  }

  /** The user to whom a user ID belongs. */
  ownerOf(uid: number): number {
    return this.owners.of(uid);
  }

  private trusts({ uid }: PeerCredentials): boolean {
    return uid === ROOT || uid === process.getuid?.() || this.config.trust.includes(uid);
  }

  private identify(
    credentials: PeerCredentials,
    { tenant, weight, traffic }: Hello,
    process: PeerProcess,
  ): Identity {
    const peer = {
      ...credentials,
      owner: this.owners.of(credentials.uid),
      tenant,
      weight,
      traffic,
      cgroup: process.cgroup,
      // Read only if everything else in a rule matches.
      get command() {
        return process.command;
      },
    };
    return identify(peer, this.config.rules, this.trusts(credentials));
  }

  private maySet({ uid, gid, groups }: PeerCredentials): boolean {
    const { group } = this.config;
    const isMember = group !== undefined && (gid === group || groups.includes(group));
    return uid === ROOT || uid === process.getuid?.() || isMember;
  }
}
