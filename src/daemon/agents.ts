/**
 * The agents of a host's devices. The daemon opens a device for them when the first program has a line to an agent there.
 * The devices of one daemon find each other's agents by GID.
 */
import type { Logger } from 'pino';
import type { AgentKind } from '../coordinator/agent.ts';
import { type AgentCoordinator, AgentHosts } from '../coordinator/agent-host.ts';
import { NO_GID } from '../coordinator/agent-link.ts';
import { IsoverbsError } from '../verbs/errors.ts';
import type { Provider } from '../verbs/provider.ts';
import type { Client, Host } from './host.ts';

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
}

/** GIDs change with the addresses of network interfaces, so they are read again, but no more often than this. */
const GIDS_NS = 1e9;

export class DaemonAgents {
  private readonly options: DaemonAgentsOptions;
  private readonly kinds = new Map<string, AgentKind>();
  private readonly hosts: AgentHosts;
  /** The devices by GID of their ports. */
  private byGid = new Map<string, string>();
  private gidsReadNs = Number.NEGATIVE_INFINITY;
  /** Errors of agents that were logged, by agent and message. */
  private readonly logged = new Set<string>();

  constructor(options: DaemonAgentsOptions) {
    const { kinds, log, providerOf } = options;
    this.options = options;
    for (const kind of kinds) this.kinds.set(kind.name, kind);
    this.hosts = new AgentHosts(
      (device) => {
        log.info({ device }, `opening ${device} for agents`);
        return providerOf(device);
      },
      (device) => this.coordinatorOf(device),
      (device, { message }) => log.warn({ device }, `${device} has no room for agents: ${message}`),
    );
  }

  /** The names of the agents, in the order in which the policies bring them. */
  get names(): string[] {
    return [...this.kinds.keys()];
  }

  /** A client tells the agent of a seat's device something. `answer` tells the context what the agent says. */
  tell(
    client: Client,
    seatNumber: number,
    agent: string,
    words: Float64Array,
    answer: (words: Float64Array) => void,
  ): void {
    // What a client says of a context that has just left comes too late.
    const place = this.options.host.placeOf(client, seatNumber);
    const kind = this.kinds.get(agent);
    if (place === undefined || kind === undefined) return;
    const agents = this.hosts.hostOf(place.device);
    const line = agents?.lineOf(kind, place.row) ?? agents?.line(kind, place.row, { onTold: answer });
    line?.tell(words);
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
    const { host, requestPass } = this.options;
    return {
      ...host.agentCoordinator(device, requestPass),
      opened: (gids) => {
        for (const gid of gids) this.byGid.set(gid, device);
      },
      addressOf: (gid, kind) => {
        const at = this.deviceWith(gid);
        const agents = at === undefined ? null : this.hosts.hostOf(at);
        if (agents === null) return null;
        agents.start(kind);
        return { gid, qpNum: agents.qpNum };
      },
      failed: (agent, error) => this.failed(device, agent, error as Error),
    };
  }

  /** Each error is logged once, because whoever causes it can do so again and again. */
  private failed(device: string, agent: string, { message, stack }: Error): void {
    const key = `${agent} ${message}`;
    if (this.logged.size >= MAX_LOGGED || this.logged.has(key)) return;
    this.logged.add(key);
    this.options.log.error({ device, agent, stack }, `agent '${agent}' of ${device}: ${message}`);
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
        log.warn({ device }, `the GIDs of ${device} cannot be read: ${error.message}`);
      }
    }
    return byGid;
  }
}

/** Agents whose messages differ each time must not fill the log. */
const MAX_LOGGED = 100;

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
