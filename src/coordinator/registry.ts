/** The coordinators of one process, one for each device of a provider. member-table.ts has the columns. */
import type { CoordinatorPort, Usage } from '../shim/coordinator-port.ts';
import type { ContextView } from '../shim/policy.ts';
import { InvalidArgumentError, NoResourcesError } from '../verbs/errors.ts';
import type { Labels } from '../verbs/labels.ts';
import type { Provider } from '../verbs/provider.ts';
import { Coordinator, type DeviceCoordinator } from './coordinator.ts';
import { type Derive, DeviceRules, parseRules } from './device-rules.ts';
import {
  DEFAULT_CAPACITY,
  HELD_REQUESTS,
  LATENCY_NS,
  MAX_QPS,
  MAX_REQUESTS_PER_S,
  type MemberPage,
  MemberTable,
  memberTableBytes,
  QPS,
  SENT_BYTES,
  SENT_REQUESTS,
  TENANT,
  WEIGHT,
} from './member-table.ts';
import type { Ruler } from './ruler.ts';

const NO_LABELS: Partial<Labels> = {};

/** A member's page at the coordinator of one device. */
interface Membership {
  readonly device: string;
  readonly coordinator: DeviceCoordinator;
  readonly page: MemberPage;
}

interface Member {
  granted: (() => void) | null;
  usage: (() => Usage | null) | null;
  /** At its own device, which is the first, and at the devices from which it READs. */
  readonly memberships: Membership[];
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

  constructor(make: CoordinatorFactory = createCoordinator) {
    this.createCoordinator = make;
  }

  /** Returns the coordinator of a device, and creates it at the first call. */
  coordinatorFor(device: string): DeviceCoordinator {
    let coordinator = this.devices.get(device);
    if (coordinator === undefined) {
      coordinator = this.createCoordinator(device);
      this.devices.set(device, coordinator);
      coordinator.listen?.(
        () => this.announce(device),
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
    return this.member(context).memberships[0].page;
  }

  private member(context: ContextView): Member {
    const known = this.members.get(context);
    if (known !== undefined) return known;
    const { device } = context;
    const member: Member = { granted: null, usage: null, memberships: [] };
    if (this.join(context, device, member) === null) {
      const { capacity } = this.coordinatorFor(device);
      throw new NoResourcesError(
        `${device} already has ${capacity} contexts under a policy, its maximum; close one first`,
      );
    }
    const { coordinator, page } = member.memberships[0];
    if (context.nic?.linkGbps) coordinator.setLink?.(context.nic.linkGbps);
    page.columns(TENANT).reports[WEIGHT] = context.labels.weight;
    this.members.set(context, member);
    return member;
  }

  /** Returns null if the device's member table is full. */
  private join({ tenant }: ContextView, device: string, member: Member): Membership | null {
    const coordinator = this.coordinatorFor(device);
    const page = coordinator.join(tenant);
    if (page === null) return null;
    const membership = { device, coordinator, page };
    member.memberships.push(membership);
    const byRow = this.byRow.get(coordinator) ?? [];
    byRow[page.row] = member;
    this.byRow.set(coordinator, byRow);
    return membership;
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
      if (used) writeUsage(member.memberships[0].page, used);
      this.members.delete(context);
      for (const { coordinator, page } of member.memberships) {
        const byRow = this.byRow.get(coordinator);
        if (byRow?.[page.row] === member) byRow[page.row] = undefined;
        coordinator.leave(page);
      }
    };
  }

  countQps(context: ContextView, qps: number): void {
    const { page, coordinator } = this.member(context).memberships[0];
    page.counters[QPS] = qps;
    if (page.grants[MAX_QPS] !== 0) coordinator.notify?.();
  }

  relabel(context: ContextView): void {
    if (this.members.has(context)) this.page(context).columns(TENANT).reports[WEIGHT] = context.labels.weight;
  }

  /** Labels that the coordinator gives to a context, and that precede the program's. */
  labelsOf(context: ContextView): Partial<Labels> {
    return this.page(context).labels ?? NO_LABELS;
  }

  /** Copies the usage of a device's members into their pages. */
  private collectUsage(device: string): void {
    for (const { usage, memberships } of this.members.values()) {
      const used = memberships[0].device === device ? usage?.() : null;
      if (used) writeUsage(memberships[0].page, used);
    }
  }

  /** The maximum number of queue pairs; infinity without a limit. */
  maxQpsOf(context: ContextView): number {
    const { grants } = this.page(context);
    return grants[MAX_QPS] === 0 ? Number.POSITIVE_INFINITY : Math.max(0, grants[MAX_QPS]);
  }

  /** The maximum number of requests per second; infinity without a limit. */
  maxRequestsPerSOf(context: ContextView): number {
    const { grants } = this.page(context);
    return grants[MAX_REQUESTS_PER_S] > 0 ? grants[MAX_REQUESTS_PER_S] : Number.POSITIVE_INFINITY;
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
      rules = new DeviceRules(device, (context) => this.members.has(context));
      this.rules.set(device, rules);
    }
    return rules;
  }

  /**
   * Lets a ruler decide (Coordinator.decide). `announce` notifies the members.
   * @param device where: the context's own, or one from which it READs, which may have rules of its own
   * @throws InvalidArgumentError if the context has not set rules (`govern`)
   */
  decide<Rules>(
    context: ContextView,
    ruler: Ruler<Rules>,
    nowNs: number,
    isNews = true,
    device: string = context.device,
  ): boolean {
    const rules = this.rulesAt(device).of(ruler) ?? this.rulesAt(context.device).of(ruler);
    if (rules === undefined) {
      throw new InvalidArgumentError(
        `ruler '${ruler.name}' has no rules at ${context.device}: call govern() first`,
      );
    }
    return this.coordinatorFor(device).decide(ruler, rules, nowNs, isNews);
  }

  /** Records that a port of a device has this GID. */
  registerGid(device: string, gid: string): void {
    this.byGid.set(gid, device);
  }

  /**
   * Makes the context a member at the device of this GID, from which it READs. Returns its page there, or null if no
   * device with this GID is known here or its member table is full.
   */
  joinReadSource(
    context: ContextView,
    gid: string,
  ): { readonly device: string; readonly page: MemberPage } | null {
    const device = this.byGid.get(gid);
    if (device === undefined) return null;
    const member = this.member(context);
    const known = member.memberships.find((one) => one.device === device);
    return known ?? this.join(context, device, member);
  }

  /** Whether members are to be notified at any device where the context is a member. */
  hasChanges(context: ContextView): boolean {
    return this.member(context).memberships.some(({ coordinator }) => coordinator.hasChanges);
  }

  /** Announces changed grants at every device where the context is a member. */
  announceAll(context: ContextView): void {
    for (const { device } of this.member(context).memberships) this.announce(device);
  }

  /** Announces changed grants to the members at a device that must act on them at once, and that run in this thread. */
  announce(device: string): void {
    const coordinator = this.coordinatorFor(device);
    if (!coordinator.hasChanges) return;
    const byRow = this.byRow.get(coordinator);
    for (const index of coordinator.takeChanges()) {
      const member = byRow?.[index];
      if (member?.memberships.some((one) => one.coordinator === coordinator)) member.granted?.();
    }
  }
}

function writeUsage({ counters }: MemberPage, { requests, bytes, held, qps, latencyNs }: Usage): void {
  counters[SENT_REQUESTS] = requests;
  counters[SENT_BYTES] = bytes;
  counters[HELD_REQUESTS] = held;
  counters[LATENCY_NS] = latencyNs;
  counters[QPS] = qps;
}

type CoordinatorFactory = (device: string) => DeviceCoordinator;

const memories = new Map<string, SharedArrayBuffer>();
let remoteFactory: CoordinatorFactory | null = null;

/**
 * Sets the factory of coordinators for devices that this thread puts under a policy from now on: `make` returns a client
 * of a coordinator elsewhere. Null restores coordinators in this process.
 */
export function setRemoteCoordinators(make: CoordinatorFactory | null): void {
  remoteFactory = make;
}

/** Allocates memory for the coordinator of one device, to be passed to `shareCoordinator` in each thread. */
export function coordinatorMemory(): SharedArrayBuffer {
  return new SharedArrayBuffer(memberTableBytes(DEFAULT_CAPACITY));
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

const byProvider = new WeakMap<Provider, CoordinatorRegistry>();

/** Returns the coordinators of a provider's devices, which all policies around the provider share. */
export function registryFor(provider: Provider): CoordinatorRegistry {
  let found = byProvider.get(provider);
  if (found === undefined) {
    found = new CoordinatorRegistry();
    byProvider.set(provider, found);
  }
  return found;
}
