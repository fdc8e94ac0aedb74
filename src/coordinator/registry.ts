/** The coordinators of one process: one for each device of a provider. What reports and grants are: members.ts. */
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

/** The kind of one that has sent nothing. */
const IDLE_KIND = 2 * IDLE;

/** A page at the coordinator of a device. */
interface Membership {
  readonly device: string;
  readonly coordinator: DeviceCoordinator;
  readonly page: MemberPage;
  /** Class and arity at the last step: when they change, others are concerned at once. */
  lastKind: number;
}

interface Member {
  listener: ((grant: Grant) => void) | null;
  watch: ContextWatch | null;
  /** At its own device, which is the first, and at those by which what it READs leaves. */
  readonly memberships: Membership[];
  /** Its limits, as it was last told. */
  maxQps: number;
  maxRequestsPerS: number;
}

/** Where policies meet the coordinators of its devices. */
export class CoordinatorRegistry implements CoordinatorPort {
  private readonly devices = new Map<string, DeviceCoordinator>();
  /** By context: an index means another context to each shim. */
  private readonly members = new Map<ContextView, Member>();
  /** By a coordinator's places. */
  private readonly byRow = new Map<DeviceCoordinator, (Member | undefined)[]>();
  private readonly createCoordinator: CoordinatorFactory;
  /** By GID of a port. */
  private readonly byGid = new Map<string, string>();

  constructor(make: CoordinatorFactory = createCoordinator) {
    this.createCoordinator = make;
  }

  /** The coordinator of a device. */
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
   * The page of a context, which is its device's member from now on.
   * @throws NoResourcesError when the device has no place for one more
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
      throw new NoResourcesError(`${device} has ${capacity} contexts under a policy, and no place for more`);
    }
    this.members.set(context, member);
    return member;
  }

  /** Null: the device has no place for one more. */
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

  /** Whether a context is a member: it is, until it closes. */
  has(context: ContextView): boolean {
    return this.members.has(context);
  }

  /** `kind` is a column of counters. */
  report(context: ContextView, kind: number, value: number): void {
    this.page(context).counters[kind] = value;
  }

  subscribe(context: ContextView, listener: (grant: Grant) => void, watch?: ContextWatch): () => void {
    const member = this.member(context);
    member.listener = listener;
    member.watch = watch ?? null;
    return () => {
      // The last of what it has done, behind the last beat.
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

  /** What the members of a device have done stands in their pages. */
  private collectUsage(device: string): void {
    for (const { watch, memberships } of this.members.values()) {
      const used = memberships[0].device === device ? watch?.usage() : null;
      if (used) writeUsage(memberships[0].page, used);
    }
  }

  /** Infinity for a member without a limit, or whose coordinator has none. */
  maxQpsOf(context: ContextView): number {
    const { grants } = this.page(context);
    return grants[MAX_QPS] === 0 ? Number.POSITIVE_INFINITY : Math.max(0, grants[MAX_QPS]);
  }

  /** As maxQpsOf. */
  maxRequestsPerSOf(context: ContextView): number {
    const { grants } = this.page(context);
    return grants[MAX_REQUESTS_PER_S] > 0 ? grants[MAX_REQUESTS_PER_S] : Number.POSITIVE_INFINITY;
  }

  /** Those whose limits are others hear of it; the grants that switch something are told by `tell`. */
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

  /** Counters become grants, for all members of the devices by which something of the context leaves. */
  runPass(context: ContextView, rules: MasterRules, nowNs: number): void {
    for (const membership of this.member(context).memberships) {
      const kind = kindOf(membership.page);
      membership.coordinator.runPass(rules, nowNs, kind !== membership.lastKind);
      membership.lastKind = kind;
    }
  }

  /** Static rates, after a context had its first queue pair or lost its last; who is concerned is told. */
  share(context: ContextView, rules: ShareRules, nowNs: number): boolean {
    const { device } = context;
    const isDone = this.coordinatorFor(device).share(rules, nowNs);
    this.notify(device);
    return isDone;
  }

  /** The next tenant's slot begins on a device, if it is time; who is concerned is told. */
  rotate(device: string, nowNs: number, slotNs: number): void {
    this.coordinatorFor(device).rotate(nowNs, slotNs);
    this.notify(device);
  }

  /** A port of a device has this GID. */
  registerGid(device: string, gid: string): void {
    this.byGid.set(gid, device);
  }

  /**
   * The context READs from the port of this GID: what it asks for leaves by that device, whose member it is from now
   * on. Its page there; null where nobody here knows the device, or it has no place for one more.
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

  /** Whether somebody is to be told on one of the devices by which something of the context leaves. */
  hasChanges(context: ContextView): boolean {
    return this.member(context).memberships.some(({ coordinator }) => coordinator.hasChanges);
  }

  /** Tells everybody whose isolation changed there. */
  notifyMembers(context: ContextView): void {
    for (const { device } of this.member(context).memberships) this.notify(device);
  }

  /** Tells everybody in this process whose isolation changed: the grants SPLIT, QNUM_ALLOW, TURN and RATE_GBPS. */
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

/** Its class, and whether it has several queue pairs. */
function kindOf({ counters }: MemberPage): number {
  return 2 * counters[CLASS] + (counters[ACTIVE_QPS] > 1 ? 1 : 0);
}

type CoordinatorFactory = (device: string) => DeviceCoordinator;

const memories = new Map<string, SharedArrayBuffer>();
let remoteFactory: CoordinatorFactory | null = null;

/**
 * From now on, whoever in this thread puts a policy around a device for the first time meets others at what `make`
 * gives for it: a client of a coordinator elsewhere. Null: no longer.
 */
export function setRemoteCoordinators(make: CoordinatorFactory | null): void {
  remoteFactory = make;
}

/** Memory for the coordinator of one device, for all threads that call `shareCoordinator` with it. */
export function coordinatorMemory(): SharedArrayBuffer {
  return new SharedArrayBuffer(memberTableBytes(DEFAULT_CAPACITY));
}

/**
 * From now on, whoever in this thread puts a policy around a device of this name for the first time is a member of
 * one coordinator with all other threads of the process that did the same with this memory.
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

/** The coordinators of a provider's devices: all policies around it share them. */
export function registryFor(provider: Provider): CoordinatorRegistry {
  let found = byProvider.get(provider);
  if (found === undefined) {
    found = new CoordinatorRegistry();
    byProvider.set(provider, found);
  }
  return found;
}
