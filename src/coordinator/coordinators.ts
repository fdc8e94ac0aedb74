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

interface Member {
  readonly coordinator: Coordinator;
  readonly page: MemberPage;
  listener: ((grant: Grant) => void) | null;
  /** Its places on the other devices, where what it READs may leave. */
  readonly elsewhere: { readonly coordinator: Coordinator; readonly page: MemberPage }[];
}

/** Where policies meet the coordinators of its devices. */
export class Coordinators implements CoordinatorPort {
  private readonly devices = new Map<string, Coordinator>();
  /** By context: an index means another context to each shim. */
  private readonly members = new Map<ContextView, Member>();
  private readonly make: (device: string) => Coordinator;

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
    return this.member(context).page;
  }

  private member(context: ContextView): Member {
    const known = this.members.get(context);
    if (known !== undefined) return known;
    const coordinator = this.of(context.device);
    const page = coordinator.join(context.tenant);
    if (page === null) {
      const { capacity } = coordinator.members;
      throw new NoResourcesError(
        `${context.device} has ${capacity} contexts under a policy, and no place for more`,
      );
    }
    const member = { coordinator, page, listener: null, elsewhere: [] };
    this.members.set(context, member);
    return member;
  }

  /** Whether a context is a member: it is, until it closes. */
  has(context: ContextView): boolean {
    return this.members.has(context);
  }

  /** `kind` is a column of counters. */
  report(context: ContextView, kind: number, value: number): void {
    this.member(context).page.counters[kind] = value;
  }

  subscribe(context: ContextView, listener: (grant: Grant) => void): () => void {
    const member = this.member(context);
    member.listener = listener;
    return () => {
      this.members.delete(context);
      member.coordinator.leave(member.page);
      for (const { coordinator, page } of member.elsewhere) coordinator.leave(page);
    };
  }

  /** Counters of the context's device become grants, for all that are its members. */
  step(context: ContextView, rules: MasterRules): void {
    const { coordinator, page, elsewhere } = this.member(context);
    coordinator.step(rules);
    for (const other of elsewhere) {
      other.page.counters.set(page.counters);
      other.coordinator.step(rules);
    }
  }

  /** The next tenant's slot begins on the context's device, if it is time; who is concerned is told. */
  rotate(context: ContextView, nowNs: number, turnNs: number): void {
    this.of(context.device).rotate(nowNs, turnNs);
    this.tell(context.device);
  }

  /**
   * The context READs: what it asks for leaves through a peer's NIC, and may be one of these devices. It is a member of
   * all of them from now on; returns its pages there.
   */
  readsFrom(context: ContextView): MemberPage[] {
    const { elsewhere } = this.member(context);
    for (const [device, coordinator] of this.devices) {
      const isKnown = elsewhere.some((other) => other.coordinator === coordinator);
      const page = device === context.device || isKnown ? null : coordinator.join(context.tenant);
      if (page !== null) elsewhere.push({ coordinator, page });
    }
    return elsewhere.map(({ page }) => page);
  }

  /** Whether somebody is to be told. */
  hasChanges(device: string): boolean {
    return this.of(device).hasChanges;
  }

  /** Tells everybody in this process whose isolation changed: the grants SPLIT, QNUM_ALLOW and TURN. */
  tell(device: string): void {
    const coordinator = this.of(device);
    if (!coordinator.hasChanges) return;
    const changed = new Set(coordinator.takeChanges());
    for (const { page, listener, coordinator: of } of [...this.members.values()]) {
      if (of !== coordinator || listener === null || !changed.has(page.index)) continue;
      listener({ kind: SPLIT, target: -1, value: page.grants[SPLIT] });
      listener({ kind: QNUM_ALLOW, target: -1, value: page.grants[QNUM_ALLOW] });
      listener({ kind: TURN, target: -1, value: page.grants[TURN] });
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
