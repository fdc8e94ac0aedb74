/**
 * The agents of a host's devices. The daemon opens a device when it starts, or when a program first uses its line to an
 * agent there. The agents of one daemon, and of the daemons of a fleet, find each other by GID.
 */
import type { Logger } from 'pino';
import type { AgentKind } from '../coordinator/agent.ts';
import { type AgentCoordinator, type AgentHost, AgentHosts } from '../coordinator/agent-host.ts';
import { NO_GID } from '../coordinator/agent-link.ts';
import { ConfigError, IsoverbsError, NoResourcesError } from '../verbs/errors.ts';
import type { Provider } from '../verbs/provider.ts';
import type { Client } from './devices.ts';
import type { Fleet } from './fleet/fleet.ts';
import type { Host } from './host.ts';

export interface DaemonAgentsOptions {
  /** The agents of the policies that clients may have. */
  readonly kinds: readonly AgentKind[];
  readonly host: Host;
  readonly log: Logger;
  /** The devices that may be opened, and the provider of each. */
  readonly devices: readonly string[];
  providerOf(device: string): Provider;
  /** Requests a pass of the coordinators. */
  requestPass(): void;
  nowNs(): number;
  /** The daemons of other hosts. */
  readonly fleet?: Fleet;
}

/** Time until a device that could not be opened is tried again. */
const RETRY_NS = 10e9;
/** GIDs change with the addresses of network interfaces, so they are reread, at most once per interval. */
const GIDS_NS = 1e9;

export class DaemonAgents {
  private readonly options: DaemonAgentsOptions;
  private readonly kinds = new Map<string, AgentKind>();
  private readonly hosts: AgentHosts;
  /** The devices by GID of their ports. */
  private byGid = new Map<string, string>();
  private gidsReadNs = Number.NEGATIVE_INFINITY;
  private readonly failures: FailureLog;
  /** When a device could not be opened the last time. */
  private readonly failedNs = new Map<string, number>();
  /** The reason for the last device that could not be opened. */
  private obstacle = '';
  /** Devices whose agents the fleet knows. */
  private readonly inFleet = new Set<string>();

  constructor(options: DaemonAgentsOptions) {
    const { kinds, log, providerOf } = options;
    this.options = options;
    this.failures = new FailureLog(log);
    for (const kind of kinds) this.kinds.set(kind.name, kind);
    this.hosts = new AgentHosts(
      (device) => {
        log.info({ event: 'agents-opening', device }, `opening ${device} for agents`);
        return providerOf(device);
      },
      (device) => this.coordinatorOf(device),
      (device, { message }) => {
        this.obstacle = message;
        log.warn({ event: 'agents-failed', device }, `no agents on ${device}: ${message}`);
      },
    );
  }

  /** The names of the agents, in the order of their policies. */
  get names(): string[] {
    return [...this.kinds.keys()];
  }

  /**
   * Opens devices for all agents when the daemon starts.
   * @throws ConfigError for a device that is not the daemon's
   * @throws NoResourcesError if one cannot be opened
   */
  open(devices: readonly string[]): void {
    const { devices: own } = this.options;
    for (const device of devices) {
      if (!own.includes(device)) {
        throw new ConfigError(
          `--agent ${device}: the daemon coordinates ${own.join(', ') || 'no devices'}; name one of these, or add ${device} with --device`,
        );
      }
      const agents = this.hostOf(device);
      if (agents === null) {
        throw new NoResourcesError(`--agent ${device}: it cannot be opened for agents: ${this.obstacle}`);
      }
      for (const kind of this.kinds.values()) agents.start(kind);
    }
  }

  /** Passes a client's words to an agent of a seat's device. `answer` passes the agent's words back. */
  tell(
    client: Client,
    seatNumber: number,
    agent: string,
    words: Float64Array,
    answer: (words: Float64Array) => void,
  ): void {
    // Words may still arrive for a context that has just left.
    const place = this.options.host.placeOf(client, seatNumber);
    const kind = this.kinds.get(agent);
    if (place === undefined || kind === undefined) return;
    const agents = this.agentsOf(place.device);
    const line = agents?.lineOf(kind, place.row) ?? agents?.line(kind, place.row, { onTold: answer });
    line?.tell(words);
  }

  /** Null: the device has no room for agents. It is tried again, but not at every message. */
  private agentsOf(device: string) {
    const agents = this.hostOf(device);
    if (agents !== null) return agents;
    const nowNs = this.options.nowNs();
    const failedNs = this.failedNs.get(device);
    const isDue = failedNs !== undefined && nowNs - failedNs >= RETRY_NS;
    if (isDue || failedNs === undefined) this.failedNs.set(device, nowNs);
    if (!isDue) return null;
    this.hosts.close(device);
    return this.hostOf(device);
  }

  /** Null: the device has no room for agents. A device of a fleet runs all agents, because other hosts may need any. */
  private hostOf(device: string): AgentHost | null {
    const { fleet } = this.options;
    const agents = this.hosts.hostOf(device);
    if (agents === null || fleet === undefined || this.inFleet.has(device)) return agents;
    this.inFleet.add(device);
    fleet.add(device, agents, this.names);
    for (const kind of this.kinds.values()) agents.start(kind);
    return agents;
  }

  left(device: string, row: number): void {
    this.hosts.left(device, row);
  }

  decided(device: string): void {
    this.hosts.decided(device);
  }

  close(): void {
    this.hosts.closeAll();
  }

  private coordinatorOf(device: string): AgentCoordinator {
    const { host, requestPass, fleet } = this.options;
    return {
      ...host.agentCoordinator(device, requestPass),
      hasCarrier: fleet !== undefined,
      opened: (gids) => {
        for (const gid of gids) this.byGid.set(gid, device);
      },
      addressOf: (gid, kind) => {
        const at = this.deviceWith(gid);
        if (at === undefined) return fleet?.addressOf(gid, kind.name, device) ?? null;
        const agents = this.hostOf(at);
        if (agents === null) return null;
        agents.start(kind);
        return { gid, qpNum: agents.qpNum };
      },
      failed: (agent, error) => this.failures.log(`agent '${agent}' of ${device}`, error as Error),
    };
  }

  private deviceWith(gid: string): string | undefined {
    const nowNs = this.options.nowNs();
    if (!this.byGid.has(gid) && nowNs - this.gidsReadNs > GIDS_NS) {
      this.gidsReadNs = nowNs;
      this.byGid = this.readGids();
    }
    return this.byGid.get(gid);
  }

  private readGids(): Map<string, string> {
    const { devices, providerOf, log } = this.options;
    const byGid = new Map<string, string>();
    for (const device of devices) {
      try {
        for (const gid of gidsOf(providerOf(device), device)) byGid.set(gid, device);
      } catch (error) {
        if (!(error instanceof IsoverbsError)) throw error;
        log.warn(
          { event: 'gids-unreadable', device },
          `the GIDs of ${device} cannot be read: ${error.message}`,
        );
      }
    }
    return byGid;
  }
}

/** Code whose errors differ each time must not fill the log. */
const MAX_LOGGED = 100;

/** Logs each error of the agents and rulers of policies once, because a client may cause the same error repeatedly. */
export class FailureLog {
  private readonly logger: Logger;
  private readonly logged = new Set<string>();

  constructor(logger: Logger) {
    this.logger = logger;
  }

  /** @param who what has thrown */
  log(who: string, { message, stack }: Error): void {
    const text = `${who}: ${message}`;
    if (this.logged.size >= MAX_LOGGED || this.logged.has(text)) return;
    this.logged.add(text);
    this.logger.error({ event: 'code-failed', stack }, text);
  }
}

/** The GIDs of a device's first port. */
function gidsOf(provider: Provider, device: string): string[] {
  const context = provider.openDevice(device);
  try {
    const { gidTblLen } = provider.queryPort(context, 1);
    const gids = Array.from({ length: gidTblLen }, (_, i) => provider.queryGid(context, 1, i).gid);
    return gids.filter((gid) => gid !== NO_GID);
  } finally {
    provider.closeDevice(context);
  }
}
