/** The coordinators of one process, one for each device of a provider. member-table.ts has the columns. */
import type { ContextWatch, CoordinatorPort, Grant, Usage } from '../shim/coordinator-port.ts';
import type { ContextView } from '../shim/policy.ts';
import { NoResourcesError } from '../verbs/errors.ts';
import type { Provider } from '../verbs/provider.ts';
import { Coordinator, type DeviceCoordinator } from './coordinator.ts';
import type { MasterRules } from './master.ts';
import {
  ACTIVE_QPS,
  CLASS,
  DEFAULT_CAPACITY,
  HELD_REQUESTS,
  IDLE,
  LATENCY_NS,
  MAX_QPS,
  MAX_REQUESTS_PER_S,
  type MemberPage,
  MemberTable,
  memberTableBytes,
  QNUM_ALLOW,
  QPS,
  RATE_GBPS,
  SENT_BYTES,
  SENT_REQUESTS,
  SLOT_STATE,
  SPLIT,
} from './member-table.ts';
import type { ShareRules } from './shares.ts';

/** The kind of a member that has sent nothing. */
const IDLE_KIND = 2 * IDLE;

/** A member's page at the coordinator of one device. */
interface Membership {
  readonly device: string;
  readonly coordinator: DeviceCoordinator;
  readonly page: MemberPage;
  /** Class and arity at the last pass. A change affects other members at once. */
  lastKind: number;
}

interface Member {
  listener: ((grant: Grant) => void) | null;
  watch: ContextWatch | null;
  /** At its own device, which is the first, and at the devices from which it READs. */
  readonly memberships: Membership[];
  /** Its limits as of the last notification. */
  maxQps: number;
  maxRequestsPerS: number;
}

/** Connects policies with the coordinators of a provider's devices. */
export class CoordinatorRegistry implements CoordinatorPort {
  private readonly devices = new Map<string, DeviceCoordinator>();
  /** By context, because a context's index differs between shims. */
  private readonly members = new Map<ContextView, Member>();
  /** By coordinator and row. */
  private readonly byRow = new Map<DeviceCoordinator, (Member | undefined)[]>();
  private readonly createCoordinator: CoordinatorFactory;
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
        () => {
          this.notify(device);
          this.notifyLimits(device);
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
    return this.member(context).memberships[0].page;
  }

  private member(context: ContextView): Member {
    const known = this.members.get(context);
    if (known !== undefined) return known;
    const { device } = context;
    const member: Member = { listener: null, watch: null, memberships: [], maxQps: 0, maxRequestsPerS: 0 };
    if (this.join(context, device, member) === null) {
      const { capacity } = this.coordinatorFor(device);
      throw new NoResourcesError(
        `${device} already has ${capacity} contexts under a policy, its maximum; close one first`,
      );
    }
    this.members.set(context, member);
    return member;
  }

  /** Returns null if the device's member table is full. */
  private join({ tenant }: ContextView, device: string, member: Member): Membership | null {
    const coordinator = this.coordinatorFor(device);
    const page = coordinator.join(tenant);
    if (page === null) return null;
    const membership = { device, coordinator, page, lastKind: IDLE_KIND };
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

  /** Writes a counter; `kind` is its column. */
  report(context: ContextView, kind: number, value: number): void {
    this.page(context).counters[kind] = value;
  }

  subscribe(context: ContextView, listener: (grant: Grant) => void, watch?: ContextWatch): () => void {
    const member = this.member(context);
    member.listener = listener;
    member.watch = watch ?? null;
    return () => {
      // What happened since the last collection would otherwise be lost.
      const used = watch?.usage();
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

  /** Copies the usage of a device's members into their pages. */
  private collectUsage(device: string): void {
    for (const { watch, memberships } of this.members.values()) {
      const used = memberships[0].device === device ? watch?.usage() : null;
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

  /** Notifies the members whose limits changed. `notify` announces the other grants. */
  private notifyLimits(device: string): void {
    for (const member of this.members.values()) {
      const { grants } = member.memberships[0].page;
      const [maxQps, maxRequestsPerS] = [grants[MAX_QPS], grants[MAX_REQUESTS_PER_S]];
      if (member.memberships[0].device !== device || member.watch === null) continue;
      if (maxQps === member.maxQps && maxRequestsPerS === member.maxRequestsPerS) continue;
      member.maxQps = maxQps;
      member.maxRequestsPerS = maxRequestsPerS;
      member.watch.limited();
    }
  }

  /** Runs a pass at each device where the context is a member. */
  runPass(context: ContextView, rules: MasterRules, nowNs: number): void {
    for (const membership of this.member(context).memberships) {
      const kind = kindOf(membership.page);
      membership.coordinator.runPass(rules, nowNs, kind !== membership.lastKind);
      membership.lastKind = kind;
    }
  }

  /**
   * Recomputes static rates after a context got its first queue pair or lost its last, and notifies the members
   * concerned.
   */
  share(context: ContextView, rules: ShareRules, nowNs: number): boolean {
    const { device } = context;
    const isDone = this.coordinatorFor(device).share(rules, nowNs);
    this.notify(device);
    return isDone;
  }

  /** Begins the next tenant's slot on a device if it is due, and notifies the members concerned. */
  rotate(device: string, nowNs: number, slotNs: number): void {
    this.coordinatorFor(device).rotate(nowNs, slotNs);
    this.notify(device);
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

  /** Notifies the members whose isolation changed at any device where the context is a member. */
  notifyMembers(context: ContextView): void {
    for (const { device } of this.member(context).memberships) this.notify(device);
  }

  /** Sends SPLIT, QNUM_ALLOW, SLOT_STATE and RATE_GBPS to the members of this process whose isolation changed. */
  private notify(device: string): void {
    const coordinator = this.coordinatorFor(device);
    if (!coordinator.hasChanges) return;
    const byRow = this.byRow.get(coordinator);
    for (const index of coordinator.takeChanges()) {
      const member = byRow?.[index];
      const membership = member?.memberships.find((one) => one.coordinator === coordinator);
      const { listener = null } = member ?? {};
      if (membership === undefined || listener === null) continue;
      const { grants } = membership.page;
      listener({ kind: SPLIT, target: -1, value: grants[SPLIT] });
      listener({ kind: QNUM_ALLOW, target: -1, value: grants[QNUM_ALLOW] });
      listener({ kind: SLOT_STATE, target: -1, value: grants[SLOT_STATE] });
      listener({ kind: RATE_GBPS, target: -1, value: grants[RATE_GBPS] });
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

/** A member's class, combined with whether it has several queue pairs. */
function kindOf({ counters }: MemberPage): number {
  return 2 * counters[CLASS] + (counters[ACTIVE_QPS] > 1 ? 1 : 0);
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
