/**
 * What the members of the devices of a simulated run reported to their coordinators, and when: recorded
 * during the run, stored as lines of JSON, and replayed to other coordinators.
 */
import { Coordinator, type DeviceCoordinator, tenantId } from '../../src/coordinator/coordinator.ts';
import type { MasterRules } from '../../src/coordinator/master.ts';
import * as M from '../../src/coordinator/member-table.ts';
import type { ShareRules } from '../../src/coordinator/shares.ts';
import { Client, Host } from '../../src/daemon/host.ts';
import { SILENT_NS } from '../../src/daemon/liveness.ts';
import { COUNTERS_BYTES, columnsAt, GRANTS_BYTES } from '../../src/daemon/pages.ts';

export type Event = { nowNs: number; device: string } & (
  | { type: 'join'; member: number; tenant: string }
  | { type: 'leave'; member: number }
  | { type: 'set'; tenant: string; weight: number }
  /** Counters that changed, by member and column, and what the run's own coordinator granted then. */
  | {
      type: 'pass';
      counters: [member: number, column: number, value: number][];
      grants: [member: number, grants: number[]][];
    }
);

/** The rules of all coordinators that are compared. */
export interface LogRules {
  readonly master: Pick<MasterRules, 'qNumAllow' | 'qNumCapa' | 'selective'>;
  readonly linkGbps: number;
  readonly weights: Readonly<Record<string, number>>;
}

/** The coordinator of one device of a run, with a record of each call. */
class Recorded implements DeviceCoordinator {
  private readonly own = new Coordinator();
  private readonly device: string;
  private readonly recorder: Recorder;
  /** By number in the log. */
  private readonly pages = new Map<number, { page: M.MemberPage; said: number[] }>();

  constructor(device: string, recorder: Recorder) {
    this.device = device;
    this.recorder = recorder;
  }

  get capacity(): number {
    return this.own.capacity;
  }

  join(tenant: string): M.MemberPage | null {
    // In a daemon, contexts without a tenant belong to their program's; here each has a tenant of its own.
    const member = this.recorder.members++;
    const name = tenant === '' ? `context ${member}` : tenant;
    const page = this.own.join(name);
    if (page === null) return null;
    this.pages.set(member, { page, said: [...page.counters] });
    this.recorder.note(this.device, { type: 'join', member, tenant: name });
    return page;
  }

  leave(page: M.MemberPage): void {
    for (const [member, known] of this.pages) {
      if (known.page.row !== page.row) continue;
      this.pages.delete(member);
      this.recorder.note(this.device, { type: 'leave', member });
    }
    this.own.leave(page);
  }

  /**
   * Each event is a pass, as each signal of a client is one; none is left out because the previous one was
   * recent.
   */
  runPass(rules: MasterRules, nowNs: number): void {
    this.own.runPass(rules, nowNs);
    this.passed(nowNs);
  }

  share(rules: ShareRules, nowNs: number): boolean {
    const isDone = this.own.share(rules, nowNs);
    this.passed(nowNs);
    return isDone;
  }

  rotate(nowNs: number, slotNs: number): void {
    this.own.rotate(nowNs, slotNs);
  }

  get hasChanges(): boolean {
    return this.own.hasChanges;
  }

  takeChanges(): number[] {
    return this.own.takeChanges();
  }

  private passed(nowNs: number): void {
    this.recorder.nowNs = nowNs;
    const counters: [number, number, number][] = [];
    const grants: [number, number[]][] = [];
    for (const [member, { page, said }] of this.pages) {
      for (let column = 0; column < M.COUNTERS; column++) {
        if (Object.is(said[column], page.counters[column])) continue;
        said[column] = page.counters[column];
        counters.push([member, column, said[column]]);
      }
      grants.push([member, [...page.grants]]);
    }
    this.recorder.note(this.device, { type: 'pass', counters, grants });
  }
}

type Noted = Event extends infer One ? (One extends Event ? Omit<One, 'nowNs' | 'device'> : never) : never;

export class Recorder {
  members = 0;
  nowNs = 0;
  private readonly lines: string[] = [];

  readonly make = (device: string): DeviceCoordinator => new Recorded(device, this);

  note(device: string, event: Noted): void {
    this.lines.push(JSON.stringify({ nowNs: this.nowNs, device, ...event }));
  }

  get text(): string {
    return this.lines.join('\n');
  }
}

/** Replays a log and grants. */
export interface Player {
  play(event: Event): void | Promise<void>;
  /** The members present. */
  grants(): Map<number, number[]>;
}

/**
 * The coordinators of a process, with what the daemon does by default: a pass of master and shares for each
 * event.
 */
export class InProcess implements Player {
  private readonly devices = new Map<string, Coordinator>();
  private readonly pages = new Map<number, M.MemberPage>();
  private readonly rules: LogRules;
  private readonly weights: Map<number, number>;

  constructor(rules: LogRules) {
    this.rules = rules;
    this.weights = new Map(Object.entries(rules.weights).map(([name, weight]) => [tenantId(name), weight]));
  }

  play(event: Event): void {
    const { device, nowNs } = event;
    const coordinator = this.devices.get(device) ?? new Coordinator();
    this.devices.set(device, coordinator);
    if (event.type === 'join') this.pages.set(event.member, coordinator.join(event.tenant)!);
    if (event.type === 'leave') {
      coordinator.leave(this.pages.get(event.member)!);
      this.pages.delete(event.member);
    }
    if (event.type === 'set') this.weights.set(tenantId(event.tenant), event.weight);
    if (event.type === 'pass') {
      for (const [member, column, value] of event.counters) {
        this.pages.get(member)!.counters[column] = value;
      }
    }
    for (const one of this.devices.values()) this.pass(one, nowNs);
  }

  private pass(coordinator: Coordinator, nowNs: number): void {
    const { master, linkGbps } = this.rules;
    // Tenants do not rotate across processes, because a tenant slot is shorter than the round trip.
    coordinator.runPass({ ...master, silentNs: SILENT_NS, rotateFrom: Number.POSITIVE_INFINITY }, nowNs);
    coordinator.share({ linkGbps, weights: this.weights, ratesGbps: new Map() }, nowNs, SILENT_NS);
  }

  grants(): Map<number, number[]> {
    return new Map([...this.pages].map(([member, { grants }]) => [member, [...grants]]));
  }
}

/** The daemon's coordinators without a socket; each tenant is a client. */
export class InHost implements Player {
  private readonly host: Host;
  private readonly rules: LogRules;
  private readonly clients = new Map<string, Client>();
  private readonly seats = new Map<number, { client: Client; slot: number }>();

  constructor(rules: LogRules) {
    this.rules = rules;
    this.host = new Host({ rules: rules.master, linkGbps: () => rules.linkGbps });
  }

  play(event: Event): void {
    const { nowNs } = event;
    if (event.type === 'join') this.join(event.member, event.tenant, event);
    if (event.type === 'leave') {
      const { client, slot } = this.seats.get(event.member)!;
      this.host.leave(client, slot, nowNs);
      this.seats.delete(event.member);
    }
    if (event.type === 'set') this.host.set(event.tenant, { weight: event.weight });
    if (event.type === 'pass') {
      for (const [member, column, value] of event.counters) this.columns(member).counters[column] = value;
    }
    this.host.fullPass(nowNs);
  }

  private join(member: number, tenant: string, { device, nowNs }: Event): void {
    const identity = { tenant, weight: this.rules.weights[tenant] ?? 1, gbps: null, class: null, maxQps: 0 };
    const pages = {
      counters: new Float64Array(COUNTERS_BYTES / 8),
      grants: new Float64Array(GRANTS_BYTES / 8),
    };
    const client =
      this.clients.get(tenant) ??
      new Client({ ...identity, maxRequestsPerS: 0, hasTenants: false }, pages, this.clients.size + 1);
    this.clients.set(tenant, client);
    const slot = member;
    const why = this.host.join(client, slot, device, nowNs);
    if (why !== null) throw new Error(why);
    this.seats.set(member, { client, slot });
  }

  private columns(member: number) {
    const { client, slot } = this.seats.get(member)!;
    return columnsAt(client.pages, slot);
  }

  grants(): Map<number, number[]> {
    return new Map([...this.seats.keys()].map((member) => [member, [...this.columns(member).grants]]));
  }
}
