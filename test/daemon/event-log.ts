/**
 * The event log of a simulated run: what each device's members reported to their coordinator, and when. It is recorded
 * during the run, stored as lines of JSON, and replayed to other coordinators.
 */
import { Coordinator, type DeviceCoordinator } from '../../src/coordinator/coordinator.ts';
import type * as M from '../../src/coordinator/member-table.ts';
import type { Ruler } from '../../src/coordinator/ruler.ts';
import { tenantId } from '../../src/coordinator/tenants.ts';
import { Client } from '../../src/daemon/devices.ts';
import { Host } from '../../src/daemon/host.ts';
import { SILENT_NS } from '../../src/daemon/liveness.ts';
import { NO_LABELS } from '../../src/daemon/rules.ts';
import { type MasterRules, master } from '../../src/policies/perf/master.ts';
import { slots } from '../../src/policies/perf/slot-rotation.ts';
import { shares } from '../../src/policies/token-bucket/shares.ts';
import {
  allGrants,
  pageOf,
  REPORTED,
  RULINGS,
  report,
  reported,
  SHAPE,
  seatRow,
} from '../support/columns.ts';

export type Event = { nowNs: number; device: string } & (
  | { type: 'join'; member: number; tenant: string }
  | { type: 'leave'; member: number }
  | { type: 'set'; tenant: string; weight: number }
  /** Reports that changed, by member and column, and what the run's own coordinator granted then. */
  | {
      type: 'pass';
      reports: [member: number, column: string, value: number][];
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
  /** Members by their number in the log. */
  private readonly pages = new Map<number, { page: M.MemberPage; said: Map<string, number> }>();

  constructor(device: string, recorder: Recorder) {
    this.device = device;
    this.recorder = recorder;
  }

  get capacity(): number {
    return this.own.capacity;
  }

  join(tenant: string): M.MemberPage | null {
    // In a daemon, contexts without a tenant belong to their program's tenant; here each has a separate tenant.
    const member = this.recorder.members++;
    const name = tenant === '' ? `context ${member}` : tenant;
    const page = this.own.join(name);
    if (page === null) return null;
    this.pages.set(member, { page, said: new Map(REPORTED.map((name) => [name, reported(page, name)])) });
    this.recorder.note(this.device, { type: 'join', member, tenant: name });
    return page;
  }

  setLink(linkGbps: number): void {
    this.own.setLink(linkGbps);
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
   * Each event causes a pass, as each signal of a client does; no pass is skipped because the previous one was recent.
   */
  decide<Rules>(ruler: Ruler<Rules>, rules: Rules, nowNs: number): boolean {
    const isDone = this.own.decide(ruler, rules, nowNs);
    // A daemon does not rotate tenants.
    if (ruler.name !== slots.name) this.passed(nowNs);
    return isDone;
  }

  get hasChanges(): boolean {
    return this.own.hasChanges;
  }

  takeChanges(): number[] {
    return this.own.takeChanges();
  }

  private passed(nowNs: number): void {
    this.recorder.nowNs = nowNs;
    const reports: [number, string, number][] = [];
    const grants: [number, number[]][] = [];
    for (const [member, { page, said }] of this.pages) {
      for (const name of REPORTED) {
        const value = reported(page, name);
        if (Object.is(said.get(name), value)) continue;
        said.set(name, value);
        reports.push([member, name, value]);
      }
      grants.push([member, allGrants(page)]);
    }
    this.recorder.note(this.device, { type: 'pass', reports, grants });
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

/** Replays a log and returns the grants after each event. */
export interface Player {
  play(event: Event): void | Promise<void>;
  /** The members present. */
  grants(): Map<number, number[]>;
}

/**
 * The coordinators of a process, which run a pass of master and shares for each event, as the daemon does by default.
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
    coordinator.setLink(this.rules.linkGbps);
    if (event.type === 'join') this.pages.set(event.member, coordinator.join(event.tenant)!);
    if (event.type === 'leave') {
      coordinator.leave(this.pages.get(event.member)!);
      this.pages.delete(event.member);
    }
    if (event.type === 'set') this.weights.set(tenantId(event.tenant), event.weight);
    if (event.type === 'pass') {
      for (const [member, column, value] of event.reports) {
        report(this.pages.get(member)!, { [column]: value });
      }
    }
    for (const one of this.devices.values()) this.pass(one, nowNs);
  }

  private pass(coordinator: Coordinator, nowNs: number): void {
    const { master: rules, linkGbps } = this.rules;
    // Tenants do not rotate across processes, because a tenant slot is shorter than the round trip.
    const elsewhere = { silentNs: SILENT_NS, rotateFrom: Number.POSITIVE_INFINITY };
    coordinator.decide(master, { ...rules, ...elsewhere }, nowNs);
    const rates = {
      linkGbps,
      weights: this.weights,
      ratesGbps: new Map(),
      silentNs: SILENT_NS,
      shared: true,
    };
    coordinator.decide(shares, rates, nowNs);
  }

  grants(): Map<number, number[]> {
    return new Map([...this.pages].map(([member, page]) => [member, allGrants(page)]));
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
    this.host = new Host({ rulings: RULINGS, linkGbps: () => rules.linkGbps });
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
      for (const [member, column, value] of event.reports) report(this.page(member), { [column]: value });
    }
    this.host.fullPass(nowNs);
  }

  private join(member: number, tenant: string, { device, nowNs }: Event): void {
    const identity = {
      tenant,
      weight: this.rules.weights[tenant] ?? 1,
      gbps: null,
      labels: NO_LABELS,
      maxQps: 0,
    };
    const pages = {
      counters: new Float64Array(SHAPE.reportsBytes / 8),
      grants: new Float64Array(SHAPE.grantsBytes / 8),
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

  private page(member: number) {
    const { client, slot } = this.seats.get(member)!;
    return pageOf(seatRow(client.pages, slot));
  }

  grants(): Map<number, number[]> {
    return new Map([...this.seats.keys()].map((member) => [member, allGrants(this.page(member))]));
  }
}
