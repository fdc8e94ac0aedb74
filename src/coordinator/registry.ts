/** The coordinators of one process, one for each device of a provider. member-table.ts has the columns. */
import type { CoordinatorPort, Usage } from '../shim/coordinator-port.ts';
import type { ContextView } from '../shim/policy.ts';
import { InvalidArgumentError, NoResourcesError } from '../verbs/errors.ts';
import type { Labels } from '../verbs/labels.ts';
import type { Provider } from '../verbs/provider.ts';
import type { Agent, AgentKind, AgentLineEvents } from './agent.ts';
import type { AgentAddress } from './agent-carrier.ts';
import { type AgentCoordinator, AgentHosts } from './agent-host.ts';
import { Coordinator, type DeviceCoordinator } from './coordinator.ts';
import { type Derive, DeviceRules, parseRules } from './device-rules.ts';
import {
  HELD_REQUESTS,
  LATENCY_NS,
  MAX_QPS,
  MAX_REQUESTS_PER_S,
  type MemberPage,
  MemberTable,
  PAID_REQUESTS,
  QPS,
  SENT_BYTES,
  SENT_REQUESTS,
  SUMS,
  TENANT,
  TENANT_REQUESTS_PER_S,
  WEIGHT,
} from './member-table.ts';
import { NO_RATES, type TargetRates } from './rates.ts';
import type { Ruler } from './ruler.ts';

const NO_LABELS: Partial<Labels> = {};
const NO_GROUPS: ReadonlyMap<string, number> = new Map();

/** A member's page at the coordinator of its device. */
interface Member {
  readonly device: string;
  readonly page: MemberPage;
  granted: (() => void) | null;
  usage: (() => Usage | null) | null;
}

/** Connects policies with the coordinators of a provider's devices. */
export class CoordinatorRegistry implements CoordinatorPort {
  private readonly devices = new Map<string, DeviceCoordinator>();
  /** By context, because a context's index differs between shims. */
  private readonly members = new Map<ContextView, Member>();
  /** By coordinator and row. */
  private readonly byRow = new Map<DeviceCoordinator, (Member | undefined)[]>();
  private readonly createCoordinator: CoordinatorFactory;
  /** By device. */
  private readonly rules = new Map<string, DeviceRules>();
  /** By GID of a port. */
  private readonly byGid = new Map<string, string>();
  /** By device. Null without a provider, on whose devices agents could open queue pairs. */
  private readonly agentHosts: AgentHosts | null;
  private readonly requireOwn: ((device: string) => void) | undefined;
  /** Null: the agents of other hosts are unknown. */
  private readonly peers: PeerDirectory | null;

  constructor(
    make: CoordinatorFactory = createCoordinator,
    provider: Provider | null = null,
    within: CoordinatorScope | null = null,
  ) {
    this.createCoordinator = make;
    this.requireOwn = within?.requireOwn;
    this.agentHosts =
      provider === null
        ? null
        : new AgentHosts(
            () => provider,
            (device) => this.agentCoordinator(device),
          );
    this.peers = within?.added(this) ?? null;
  }

  /**
   * Returns the coordinator of a device, and creates it on the first call.
   * @throws NoDeviceError for a device of another simulated host
   */
  coordinatorFor(device: string): DeviceCoordinator {
    let coordinator = this.devices.get(device);
    if (coordinator === undefined) {
      this.requireOwn?.(device);
      coordinator = this.createCoordinator(device);
      this.devices.set(device, coordinator);
      coordinator.listen?.(
        () => {
          this.announce(device);
          this.agentHosts?.decided(device);
        },
        () => this.collectUsage(device),
      );
    }
    return coordinator;
  }

  /**
   * The page of a context. The first call makes the context a member at its device.
   * @throws NoResourcesError when the device's member table is full
   */
  page(context: ContextView): MemberPage {
    return this.member(context).page;
  }

  private member(context: ContextView): Member {
    const known = this.members.get(context);
    if (known !== undefined) return known;
    const { device, tenant } = context;
    const coordinator = this.coordinatorFor(device);
    const member = this.join(device, tenant, null);
    if (member === null) {
      throw new NoResourcesError(
        `${device} already has ${coordinator.capacity} contexts under a policy, its maximum; close one first`,
      );
    }
    if (context.nic?.linkGbps) coordinator.setLink?.(context.nic.linkGbps);
    member.page.columns(TENANT).reports[WEIGHT] = context.labels.weight;
    this.members.set(context, member);
    return member;
  }

  /** Adds a member at a device. Returns null if its member table is full. */
  private join(device: string, tenant: string | number, granted: (() => void) | null): Member | null {
    const coordinator = this.coordinatorFor(device);
    const page = coordinator.join(tenant);
    if (page === null) return null;
    const member = { device, page, granted, usage: null };
    const byRow = this.byRow.get(coordinator) ?? [];
    byRow[page.row] = member;
    this.byRow.set(coordinator, byRow);
    return member;
  }

  private leave(device: string, page: MemberPage): void {
    const coordinator = this.coordinatorFor(device);
    this.agentHosts?.left(device, page.row);
    const byRow = this.byRow.get(coordinator);
    if (byRow?.[page.row]?.page === page) byRow[page.row] = undefined;
    coordinator.leave(page);
  }

  /** Whether a context is a member. It remains one until it closes. */
  has(context: ContextView): boolean {
    return this.members.has(context);
  }

  subscribe(context: ContextView, granted: () => void, usage?: () => Usage | null): () => void {
    const member = this.member(context);
    member.granted = granted;
    member.usage = usage ?? null;
    return () => {
      // What happened since the last collection would otherwise be lost.
      const used = usage?.();
      if (used) writeUsage(member.page, used);
      this.members.delete(context);
      this.leave(member.device, member.page);
      const isLast = ![...this.members.keys()].some(({ device }) => device === context.device);
      if (isLast) this.agentHosts?.close(context.device);
    };
  }

  countQps(context: ContextView, qps: number): void {
    const { page, device } = this.member(context);
    page.counters[QPS] = qps;
    if (page.grants[MAX_QPS] !== 0) this.coordinatorFor(device).notify?.();
  }

  relabel(context: ContextView): void {
    if (this.members.has(context)) this.page(context).columns(TENANT).reports[WEIGHT] = context.labels.weight;
  }

  /** Labels that the coordinator gives to a context, and that precede the program's. */
  labelsOf(context: ContextView): Partial<Labels> {
    return this.page(context).labels ?? NO_LABELS;
  }

  /** Weights of groups that the coordinator gives to a context. */
  groupsOf(context: ContextView): ReadonlyMap<string, number> {
    return this.page(context).groups ?? NO_GROUPS;
  }

  setGroup(context: ContextView, name: string, weight: number | null): void {
    this.coordinatorFor(context.device).setGroup?.(this.page(context), name, weight);
  }

  /** Rates of groups and queue pairs that the coordinator gives to a context. */
  ratesOf(context: ContextView): TargetRates {
    return this.page(context).rates ?? NO_RATES;
  }

  /** Tells the coordinator how many queue pairs of a context have each of these rates, in their order. */
  countRated(context: ContextView, qps: readonly number[]): void {
    this.page(context).countRated?.(qps);
  }

  /** Copies the usage of a device's members into their pages. */
  private collectUsage(device: string): void {
    for (const { usage, device: own, page } of this.members.values()) {
      const used = own === device ? usage?.() : null;
      if (used) writeUsage(page, used);
    }
  }

  /** The maximum number of queue pairs of a context that asks for this many; infinity without a limit. */
  maxQpsOf(context: ContextView, qps: number): number {
    const { page, device } = this.member(context);
    if (page.grants[MAX_QPS] === 0) return Number.POSITIVE_INFINITY;
    const coordinator = this.coordinatorFor(device);
    const before = page.counters[QPS];
    page.counters[QPS] = qps;
    coordinator.notify?.();
    page.awaitCounted?.();
    const most = page.grants[MAX_QPS] === 0 ? Number.POSITIVE_INFINITY : Math.max(0, page.grants[MAX_QPS]);
    if (most >= qps) return most;
    page.counters[QPS] = before;
    coordinator.notify?.();
    return most;
  }

  /** The maximum number of requests per second; infinity without a limit. */
  maxRequestsPerSOf(context: ContextView): number {
    const perS = this.page(context).grants[MAX_REQUESTS_PER_S];
    return perS === 0 ? Number.POSITIVE_INFINITY : Math.max(0, perS);
  }

  /** The maximum number of requests per second of all contexts of the tenant; infinity without a limit. */
  tenantRequestsPerSOf(context: ContextView): number {
    return this.page(context).grants[TENANT_REQUESTS_PER_S] || Number.POSITIVE_INFINITY;
  }

  payRequests(context: ContextView, requests: number): void {
    this.page(context).counters[PAID_REQUESTS] += requests;
  }

  isRemote(context: ContextView): boolean {
    return this.page(context).awaitGrants !== undefined;
  }

  awaitGrants(context: ContextView): void {
    this.page(context).awaitGrants?.();
  }

  pulse(context: ContextView): void {
    if (this.page(context).pulse?.()) this.announce(context.device);
  }

  /** The tenant of a context: the one to which a coordinator elsewhere has assigned it, otherwise the program's. */
  tenantOf(context: ContextView): string {
    return this.page(context).assignedTenant ?? context.tenant;
  }

  /**
   * Sets the rules of a ruler at the context's device. All contexts of a device must have the same. Called before
   * `decide`, and before the context becomes a member.
   * @param derive default: the ruler's own way (Ruler.rules)
   * @throws ConfigError naming the options that differ from those of other contexts, or those that are no rules
   */
  govern<Options extends object, Rules>(
    context: ContextView,
    ruler: Ruler<Rules>,
    options: Options,
    derive: Derive<Options, Rules> = (given) => parseRules(ruler, given),
  ): void {
    this.rulesAt(context.device).set(context, ruler, options, derive);
  }

  /** Changes the rules of a ruler at the context's device, for all its contexts. @throws ConfigError as `govern` */
  changeRules<Options extends object, Rules>(
    { device }: ContextView,
    ruler: Ruler<Rules>,
    options: Options,
    derive: Derive<Options, Rules> = (given) => parseRules(ruler, given),
  ): void {
    this.rulesAt(device).change(ruler, options, derive);
  }

  private rulesAt(device: string): DeviceRules {
    let rules = this.rules.get(device);
    if (rules === undefined) {
      this.requireOwn?.(device);
      rules = new DeviceRules(device, (context) => this.members.has(context));
      this.rules.set(device, rules);
    }
    return rules;
  }

  /**
   * Lets a ruler decide (Coordinator.decide) at the context's device. `announce` notifies the members.
   * @throws InvalidArgumentError if the context has not set rules (`govern`)
   */
  decide<Rules>({ device }: ContextView, ruler: Ruler<Rules>, nowNs: number, isNews = true): boolean {
    const rules = this.rulesAt(device).of(ruler);
    if (rules === undefined) {
      throw new InvalidArgumentError(`ruler '${ruler.name}' has no rules at ${device}: call govern() first`);
    }
    return this.decideAt(device, ruler, rules, nowNs, isNews);
  }

  private decideAt<Rules>(
    device: string,
    ruler: Ruler<Rules>,
    rules: Rules,
    nowNs: number,
    isNews: boolean,
  ): boolean {
    const hasDecided = this.coordinatorFor(device).decide(ruler, rules, nowNs, isNews);
    this.agentHosts?.decided(device);
    return hasDecided;
  }

  /**
   * Gives a context a line to the agent of this kind at its device, and starts the agent if needed. The agent runs next to
   * the coordinator: in this process (the line is up before the call returns) or in the daemon. A second call
   * replaces the line. Returns false if this process cannot run agents: in a gate of another thread, or when the device
   * has no room for their queue pairs.
   */
  line(context: ContextView, kind: AgentKind, events: AgentLineEvents): boolean {
    const { device, page } = this.member(context);
    const coordinator = this.coordinatorFor(device);
    if (coordinator.line !== undefined) {
      coordinator.line(page, kind.name, events);
      return true;
    }
    const host = this.agentHosts?.hostOf(device) ?? null;
    host?.line(kind, page.row, events);
    return host !== null;
  }

  /**
   * The agent of this kind in this process; null if none can run (see `line`).
   * @throws NoDeviceError for a device of another simulated host
   */
  agent<Kind extends Agent>(device: string, kind: AgentKind<Kind>): Kind | null {
    this.requireOwn?.(device);
    if (this.coordinatorFor(device).line !== undefined) return null;
    return this.agentHosts?.hostOf(device)?.start(kind) ?? null;
  }

  /** Messages that the agents of open devices have sent to other hosts. */
  get agentMessages(): number {
    return this.agentHosts?.messages ?? 0;
  }

  /** Takes the agents of a device's host out of order (true), or lets them continue. */
  setAgentsDown(device: string, isDown: boolean): void {
    this.requireOwn?.(device);
    this.agentHosts?.setDown(device, isDown);
  }

  /** What the agents of a device's host can do at its coordinator. */
  private agentCoordinator(device: string): AgentCoordinator {
    return {
      members: (ruler) => this.coordinatorFor(device).membersOf!(ruler),
      changed: (member) => {
        this.coordinatorFor(device).markChanged?.(member);
        this.announce(device);
      },
      join: (tenant, granted) => this.join(device, tenant === 0 ? '' : tenant, granted)?.page ?? null,
      leave: (page) => this.leave(device, page),
      decide: (ruler, nowNs, isNews) => {
        // A device that no policy of this process governs has the ruler's defaults.
        const rules = this.rulesAt(device).of(ruler) ?? parseRules(ruler, {});
        this.decideAt(device, ruler, rules, nowNs, isNews);
        this.announce(device);
      },
      opened: (gids) => {
        for (const gid of gids) this.registerGid(device, gid);
      },
      addressOf: (gid, kind) =>
        this.byGid.has(gid) ? this.addressOf(gid, kind) : (this.peers?.addressOf(gid, kind) ?? null),
    };
  }

  /**
   * Starts the agent of this kind at the device recorded for a GID, and returns the agent's address. Null:
   * no device was recorded, or it has no room for agents.
   */
  addressOf(gid: string, kind: AgentKind): AgentAddress | null {
    const device = this.byGid.get(gid);
    const host = device === undefined ? null : this.agentHosts?.hostOf(device);
    if (!host) return null;
    host.start(kind);
    return { gid, qpNum: host.qpNum };
  }

  /** Whether an agent of this kind may be reachable at the device with this GID. A daemon may find any. */
  mayReach({ device }: ContextView, gid: string, kind: AgentKind): boolean {
    if (this.byGid.has(gid) || this.coordinatorFor(device).line !== undefined) return true;
    return (this.peers?.addressOf(gid, kind) ?? null) !== null;
  }

  /** Records that a port of a device has this GID. @throws NoDeviceError for a device of another simulated host */
  registerGid(device: string, gid: string): void {
    this.requireOwn?.(device);
    this.byGid.set(gid, device);
    this.peers?.register(gid);
  }

  /** A context must act on new grants that did not come from its coordinator. */
  notify(context: ContextView): void {
    this.members.get(context)?.granted?.();
  }

  /** Whether members are to be notified at the context's device. */
  hasChanges({ device }: ContextView): boolean {
    return this.coordinatorFor(device).hasChanges;
  }

  /** Announces changed grants to the members at a device that must act on them at once, and that run in this thread. */
  announce(device: string): void {
    const coordinator = this.coordinatorFor(device);
    if (!coordinator.hasChanges) return;
    const byRow = this.byRow.get(coordinator);
    for (const index of coordinator.takeChanges()) {
      byRow?.[index]?.granted?.();
    }
  }
}

function writeUsage({ counters }: MemberPage, { requests, bytes, held, qps, latencyNs, sums }: Usage): void {
  counters[SENT_REQUESTS] = requests;
  counters[SENT_BYTES] = bytes;
  counters[HELD_REQUESTS] = held;
  counters[LATENCY_NS] = latencyNs;
  counters[QPS] = qps;
  counters.set(sums, SUMS);
}

type CoordinatorFactory = (device: string) => DeviceCoordinator;

/** The addresses of agents of other hosts. A directory reveals nothing else about these hosts. */
export interface PeerDirectory {
  /** Records that a port of this host has this GID. */
  register(gid: string): void;
  /** Like CoordinatorRegistry.addressOf, at the host that recorded this GID. */
  addressOf(gid: string, kind: AgentKind): AgentAddress | null;
}

/** What makes coordinators, and is told of each registry that uses them. */
export interface CoordinatorScope {
  readonly create: CoordinatorFactory;
  /** Throws for a device that is another host's. Absent: all devices belong to one host. */
  readonly requireOwn?: (device: string) => void;
  /** Returns the registry's directory of other hosts' agents; null if there is none. */
  added(registry: CoordinatorRegistry): PeerDirectory | null;
}

const memories = new Map<string, SharedArrayBuffer>();
let remoteFactory: CoordinatorFactory | null = null;
let scope: CoordinatorScope | null = null;

/**
 * Sets the factory of coordinators for devices that this thread puts under a policy from now on: `make` returns a client
 * of a coordinator elsewhere. Null restores coordinators in this process.
 */
export function setRemoteCoordinators(make: CoordinatorFactory | null): void {
  remoteFactory = make;
}

/**
 * Makes this thread use one coordinator for a device together with all threads of the process that pass the same memory.
 * It takes effect when this thread first puts a policy around a device of this name.
 */
export function shareCoordinator(device: string, memory: SharedArrayBuffer): void {
  memories.set(device, memory);
}

function createCoordinator(device: string): DeviceCoordinator {
  if (remoteFactory !== null) return remoteFactory(device);
  const memory = memories.get(device);
  return memory === undefined ? new Coordinator() : new Coordinator(new MemberTable(memory));
}

/** Gives all policies that `wrap` puts around a provider coordinators by `given`. Returns what `wrap` returns. */
export function withCoordinators<T>(given: CoordinatorScope, wrap: () => T): T {
  const before = scope;
  scope = given;
  try {
    return wrap();
  } finally {
    scope = before;
  }
}

const byProvider = new WeakMap<Provider, CoordinatorRegistry>();

/** Returns the coordinators of a provider's devices, which all policies around the provider share. */
export function registryFor(provider: Provider): CoordinatorRegistry {
  let found = byProvider.get(provider);
  if (found === undefined) {
    // Coordinators elsewhere stay where they are.
    const create = remoteFactory === null ? scope?.create : undefined;
    found = new CoordinatorRegistry(create ?? createCoordinator, provider, scope);
    byProvider.set(provider, found);
  }
  return found;
}
