/** The coordinators of one process: one for each device of a provider. What reports and grants are: members.ts. */
import type { CoordinatorPort, Grant } from '../shim/coordinator-port.ts';
import type { ContextView } from '../shim/policy.ts';
import { NoResourcesError } from '../verbs/errors.ts';
import type { Provider } from '../verbs/provider.ts';
import { Coordinator } from './coordinator.ts';
import type { MasterRules } from './master.ts';
import {
  DEFAULT_CAPACITY,
  type MemberPage,
  Members,
  membersBytes,
  QNUM_ALLOW,
  SPLIT,
  TURN,
} from './members.ts';

/** A page at the coordinator of a device. */
interface Place {
  readonly device: string;
  readonly coordinator: Coordinator;
  readonly page: MemberPage;
}

interface Member {
  listener: ((grant: Grant) => void) | null;
  /** At its own device, which is the first, and at those by which what it READs leaves. */
  readonly places: Place[];
}

/** Where policies meet the coordinators of its devices. */
export class Coordinators implements CoordinatorPort {
  private readonly devices = new Map<string, Coordinator>();
  /** By context: an index means another context to each shim. */
  private readonly members = new Map<ContextView, Member>();
  private readonly make: (device: string) => Coordinator;
  /** By GID of a port. */
  private readonly byGid = new Map<string, string>();

  constructor(make: (device: string) => Coordinator = coordinatorOf) {
    this.make = make;
  }

  /** The coordinator of a device. */
  of(device: string): Coordinator {
    let coordinator = this.devices.get(device);
    if (coordinator === undefined) {
      coordinator = this.make(device);
      this.devices.set(device, coordinator);
    }
    return coordinator;
  }

  /**
   * The page of a context, which is its device's member from now on.
   * @throws NoResourcesError when the device has no place for one more
   */
  page(context: ContextView): MemberPage {
    return this.member(context).places[0].page;
  }

  private member(context: ContextView): Member {
    const known = this.members.get(context);
    if (known !== undefined) return known;
    const { device } = context;
    const place = this.join(context, device);
    if (place === null) {
      const { capacity } = this.of(device).members;
      throw new NoResourcesError(`${device} has ${capacity} contexts under a policy, and no place for more`);
    }
    const member = { listener: null, places: [place] };
    this.members.set(context, member);
    return member;
  }

  private join({ tenant }: ContextView, device: string): Place | null {
    const coordinator = this.of(device);
    const page = coordinator.join(tenant);
    return page === null ? null : { device, coordinator, page };
  }

  /** Whether a context is a member: it is, until it closes. */
  has(context: ContextView): boolean {
    return this.members.has(context);
  }

  /** `kind` is a column of counters. */
  report(context: ContextView, kind: number, value: number): void {
    this.page(context).counters[kind] = value;
  }

  subscribe(context: ContextView, listener: (grant: Grant) => void): () => void {
    const member = this.member(context);
    member.listener = listener;
    return () => {
      this.members.delete(context);
      for (const { coordinator, page } of member.places) coordinator.leave(page);
    };
  }

  /** Counters become grants, for all members of the devices by which something of the context leaves. */
  step(context: ContextView, rules: MasterRules): void {
    for (const { coordinator } of this.member(context).places) coordinator.step(rules);
  }

  /** The next tenant's slot begins on a device, if it is time; who is concerned is told. */
  rotate(device: string, nowNs: number, turnNs: number): void {
    this.of(device).rotate(nowNs, turnNs);
    this.tell(device);
  }

  /** A port of a device has this GID. */
  hasGid(device: string, gid: string): void {
    this.byGid.set(gid, device);
  }

  /**
   * The context READs from the port of this GID: what it asks for leaves by that device, whose member it is from now
   * on. Its page there; null where nobody here knows the device, or it has no place for one more.
   */
  readsFrom(
    context: ContextView,
    gid: string,
  ): { readonly device: string; readonly page: MemberPage } | null {
    const device = this.byGid.get(gid);
    if (device === undefined) return null;
    const { places } = this.member(context);
    const known = places.find((place) => place.device === device);
    if (known !== undefined) return known;
    const place = this.join(context, device);
    if (place !== null) places.push(place);
    return place;
  }

  /** Whether somebody is to be told on one of the devices by which something of the context leaves. */
  hasChanges(context: ContextView): boolean {
    return this.member(context).places.some(({ coordinator }) => coordinator.hasChanges);
  }

  /** Tells everybody whose isolation changed there. */
  tellAll(context: ContextView): void {
    for (const { device } of this.member(context).places) this.tell(device);
  }

  /** Tells everybody in this process whose isolation changed: the grants SPLIT, QNUM_ALLOW and TURN. */
  private tell(device: string): void {
    const coordinator = this.of(device);
    if (!coordinator.hasChanges) return;
    const changed = new Set(coordinator.takeChanges());
    for (const { places, listener } of [...this.members.values()]) {
      const place = places.find((one) => one.coordinator === coordinator);
      if (place === undefined || listener === null || !changed.has(place.page.index)) continue;
      const { grants } = place.page;
      listener({ kind: SPLIT, target: -1, value: grants[SPLIT] });
      listener({ kind: QNUM_ALLOW, target: -1, value: grants[QNUM_ALLOW] });
      listener({ kind: TURN, target: -1, value: grants[TURN] });
    }
  }
}

const memories = new Map<string, SharedArrayBuffer>();

/** Memory for the coordinator of one device, for all threads that call `shareCoordinator` with it. */
export function coordinatorMemory(): SharedArrayBuffer {
  return new SharedArrayBuffer(membersBytes(DEFAULT_CAPACITY));
}

/**
 * From now on, whoever in this thread puts a policy around a device of this name for the first time is a member of
 * one coordinator with all other threads of the process that did the same with this memory.
 */
export function shareCoordinator(device: string, memory: SharedArrayBuffer): void {
  memories.set(device, memory);
}

function coordinatorOf(device: string): Coordinator {
  const memory = memories.get(device);
  return memory === undefined ? new Coordinator() : new Coordinator(new Members(memory));
}

const byProvider = new WeakMap<Provider, Coordinators>();

/** The coordinators of a provider's devices: all policies around it share them. */
export function coordinatorsOf(provider: Provider): Coordinators {
  let found = byProvider.get(provider);
  if (found === undefined) {
    found = new Coordinators();
    byProvider.set(provider, found);
  }
  return found;
}
