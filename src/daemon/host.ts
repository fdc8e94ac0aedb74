/**
 * The coordinators of a host's devices, and the clients whose contexts are their members. No socket, no clock: what
 * happens is told and marks what it concerns, a pass decides about all that is marked, and what the clients are to hear
 * is taken. A client's counters are memory that it may write at any time: they are copied before anything is decided,
 * and believed as far as src/coordinator believes them.
 */
import { Coordinator, tenantNumber } from '../coordinator/coordinator.ts';
import { type MasterRules, REASONS } from '../coordinator/master.ts';
import * as M from '../coordinator/member-table.ts';
import type { ShareRules } from '../coordinator/shares.ts';
import { limit, type TenantLimits } from './limits.ts';
import { type ProcessState, SILENT_NS } from './liveness.ts';
import { columnsAt, type Pages, SLOTS } from './pages.ts';
import type { TenantRow } from './protocol.ts';
import { CLASSES, type Identity } from './rules.ts';
import { ANY_NS, Seats } from './seats.ts';
import { add, type Counted, type Total, Totals } from './totals.ts';

/** Who rings is looked at; before a pass all others are, if they were not for so long: none is silent unseen. */
const LOOK_NS = SILENT_NS / 3;
/** Of tenants for whom an operator has set something. */
const MOST_SETTINGS = 4096;
/** One that opens context after context does not take the places of all others. */
const MOST_PLACES_OF_A_TENANT = 1024;
/** A link of which nobody knows the rate: no share of it holds anybody back. */
const UNKNOWN_LINK_GBPS = 1e5;
/** More than any page may truthfully say. */
const MOST_SHOWN = 2 ** 53;
/** By number (members.ts). */
const CLASS_NAMES = ['idle', ...CLASSES];

/** A context of a client at one device. */
interface Seat {
  readonly client: Client;
  readonly slot: number;
  readonly device: Device;
  readonly tenant: Tenant;
  /** As the program named it; '': it did not. */
  readonly own: string;
  readonly page: M.MemberPage;
  /** What the client writes. */
  readonly theirs: Float64Array;
  /** Of its requests, for limits.ts. */
  sent: number;
  sentNs: number;
  /** Of what it has sent, what its tenant's total has. */
  readonly counted: Counted;
}

/** A tenant that is at a device. */
interface Tenant {
  readonly name: string;
  readonly number: number;
  readonly seats: Set<Seat>;
  readonly total: Total;
  /** Null: it has none. */
  limits: TenantLimits | null;
}

interface Device extends ShareRules {
  readonly name: string;
  readonly coordinator: Coordinator;
  /** By place of a member. */
  readonly seats: (Seat | undefined)[];
  readonly columns: Seats;
  readonly tenants: Map<string, Tenant>;
  /** Those that have limits. */
  readonly limited: Set<Tenant>;
  /** Those whose contexts came or went since the last pass: who says what is to be looked at again. */
  readonly changed: Set<Tenant>;
  /** By tenant's number. */
  readonly weights: Map<number, number>;
  readonly ratesGbps: Map<number, number>;
  revision: number;
  /** Something has changed since the last pass. */
  isMarked: boolean;
  /** When all seats were looked at last. */
  lookedNs: number;
}

/** A process, or a thread of one. */
export class Client {
  identity: Identity;
  readonly pages: Pages;
  readonly pid: number;
  /** By slot. */
  readonly seats = new Map<number, Seat>();
  /** It has a grant that is another now, and has not been told. */
  isToTell = false;

  constructor(identity: Identity, pages: Pages, pid: number) {
    this.identity = identity;
    this.pages = pages;
    this.pid = pid;
  }
}

export interface HostOptions {
  /** PeRF's master. */
  readonly rules: Omit<MasterRules, 'silentNs' | 'rotateFrom'>;
  /** Of a device's link, to be shared; 0: nobody knows; null: there is no such device. */
  linkGbps(device: string): number | null;
  /** At a process that gives no sign of life. Absent, or null: nothing is known of it. */
  look?(pid: number): ProcessState | null;
}

/** What an operator has set for a tenant, beside what the rules say. */
interface Setting {
  weight?: number;
  gbps?: number | null;
  maxQps?: number | null;
  maxRequestsPerS?: number | null;
}

export class Host {
  private readonly options: HostOptions;
  private readonly devices = new Map<string, Device>();
  private readonly settings = new Map<string, Setting>();
  private told: Client[] = [];
  private readonly totals = new Totals();
  /** Those whose counters the next pass looks at. */
  private readonly rung = new Set<Client>();
  private readonly rules: MasterRules;

  constructor(options: HostOptions) {
    this.options = options;
    // Slots are shorter than a message to the daemon and back takes: nobody rotates.
    this.rules = { ...options.rules, silentNs: ANY_NS, rotateFrom: Number.POSITIVE_INFINITY };
  }

  /**
   * A context of a client is a member of a device's coordinator from now on, with grants from the next pass on. Why
   * not, if it cannot.
   */
  join(client: Client, slot: number, device: string, nowNs: number, own = ''): string | null {
    if (!(slot < SLOTS)) return `there are ${SLOTS} places, and no ${slot}`;
    if (client.seats.has(slot)) return `place ${slot} is taken`;
    const at = this.device(device);
    if (at === null) return `the daemon knows no device '${device}'`;
    const { identity } = client;
    const name = own !== '' && identity.hasTenants ? own : identity.tenant;
    if ((at.tenants.get(name)?.seats.size ?? 0) >= MOST_PLACES_OF_A_TENANT) {
      return `${name} has ${MOST_PLACES_OF_A_TENANT} contexts at ${device}, and no place for more`;
    }
    const page = at.coordinator.join(name);
    if (page === null) return `${device} has no place for one more context`;
    const tenant = this.tenant(at, name);
    const { counters, grants } = columnsAt(client.pages, slot);
    const declared = identity.class === null ? M.IDLE : CLASS_NAMES.indexOf(identity.class);
    at.columns.add(page.index, { counters, grants }, client.pid, declared, nowNs);
    // What is there already was sent before it joined here.
    const counted = { requests: counters[M.SENT_REQUESTS], bytes: counters[M.SENT_BYTES] };
    const seat: Seat = {
      client,
      slot,
      device: at,
      tenant,
      own,
      page,
      theirs: counters,
      sent: counted.requests,
      sentNs: Number.NEGATIVE_INFINITY,
      counted,
    };
    at.seats[page.index] = seat;
    tenant.seats.add(seat);
    client.seats.set(slot, seat);
    at.changed.add(tenant);
    at.isMarked = true;
    this.rung.add(client);
    return null;
  }

  leave(client: Client, slot: number, nowNs: number): void {
    const seat = client.seats.get(slot);
    if (seat !== undefined) this.remove(seat, nowNs);
  }

  /**
   * A client is somebody else from now on: the rules have changed.
   * @returns whether there is a place for all its contexts; those without have left
   */
  reidentify(client: Client, identity: Identity, nowNs: number): boolean {
    client.identity = identity;
    let isWhole = true;
    for (const { slot, device, own } of [...client.seats.values()]) {
      this.leave(client, slot, nowNs);
      if (this.join(client, slot, device.name, nowNs, own) !== null) isWhole = false;
    }
    return isWhole;
  }

  /** The client has gone: what it had is free. */
  forget(client: Client, nowNs: number): void {
    for (const seat of client.seats.values()) this.remove(seat, nowNs);
    this.rung.delete(client);
  }

  private remove(seat: Seat, nowNs: number): void {
    const { client, slot, device, tenant, page } = seat;
    count(seat);
    client.seats.delete(slot);
    tenant.seats.delete(seat);
    device.seats[page.index] = undefined;
    device.columns.remove(page.index);
    device.coordinator.leave(page);
    device.isMarked = true;
    if (tenant.seats.size > 0) {
      device.changed.add(tenant);
      return;
    }
    device.tenants.delete(tenant.name);
    device.limited.delete(tenant);
    device.changed.delete(tenant);
    device.weights.delete(tenant.number);
    device.ratesGbps.delete(tenant.number);
    device.revision++;
    this.totals.left(tenant.total, nowNs);
  }

  /** What tenants have sent, those that left within the last hour included. */
  sent(nowNs: number): Total[] {
    for (const { seats } of this.devices.values()) {
      for (const seat of seats) if (seat !== undefined) count(seat);
    }
    return this.totals.all(nowNs);
  }

  /** Null: there is none. */
  private device(name: string): Device | null {
    const known = this.devices.get(name);
    if (known !== undefined) return known;
    const linkGbps = this.options.linkGbps(name);
    if (linkGbps === null) return null;
    const coordinator = new Coordinator();
    const device: Device = {
      name,
      coordinator,
      linkGbps: linkGbps > 0 ? linkGbps : UNKNOWN_LINK_GBPS,
      seats: [],
      columns: new Seats(coordinator.members, this.options.look ?? (() => null)),
      tenants: new Map(),
      limited: new Set(),
      changed: new Set(),
      weights: new Map(),
      ratesGbps: new Map(),
      revision: 0,
      isMarked: false,
      lookedNs: Number.NEGATIVE_INFINITY,
    };
    this.devices.set(name, device);
    return device;
  }

  private tenant(device: Device, name: string): Tenant {
    const known = device.tenants.get(name);
    if (known !== undefined) return known;
    const total = this.totals.of(device.name, name);
    const tenant = { name, number: tenantNumber(name), seats: new Set<Seat>(), total, limits: null };
    device.tenants.set(name, tenant);
    return tenant;
  }

  /**
   * What a tenant is to get, as the operator or the rules have it. Where its clients say different things, the largest
   * weight and rate count, and the strictest limits: who comes first or last makes no difference.
   */
  private apply(device: Device, tenant: Tenant): void {
    const identities = new Set([...tenant.seats].map(({ client }) => client.identity));
    const all = [...identities];
    const { number } = tenant;
    const setting = this.settings.get(tenant.name) ?? {};
    const { weight = Math.max(...all.map((one) => one.weight)) } = setting;
    const { gbps = largest(all.map((one) => one.gbps ?? 0)) } = setting;
    const { maxQps = strictest(all.map((one) => one.maxQps)) } = setting;
    const { maxRequestsPerS = strictest(all.map((one) => one.maxRequestsPerS)) } = setting;
    if (device.weights.get(number) !== weight || (device.ratesGbps.get(number) ?? null) !== gbps) {
      device.revision++;
    }
    device.weights.set(number, weight);
    if (gbps === null) device.ratesGbps.delete(number);
    else device.ratesGbps.set(number, gbps);
    if (maxQps === null && maxRequestsPerS === null && tenant.limits === null) return;
    tenant.limits = { maxQps: maxQps ?? 0, maxRequestsPerS: maxRequestsPerS ?? 0 };
    device.limited.add(tenant);
  }

  /** @returns whether there is such a tenant now; what is set holds for one that comes later, too */
  set(tenant: string, setting: Setting): boolean {
    const merged = { ...this.settings.get(tenant), ...setting };
    // Last of all again: those that were set longest ago are forgotten first.
    this.settings.delete(tenant);
    this.settings.set(tenant, merged);
    this.forgetSettings();
    let known = false;
    for (const device of this.devices.values()) {
      const here = device.tenants.get(tenant);
      if (here === undefined) continue;
      known = true;
      device.isMarked = true;
      this.apply(device, here);
    }
    return known;
  }

  /** Names of nobody who is there do not fill the memory. */
  private forgetSettings(): void {
    if (this.settings.size <= MOST_SETTINGS) return;
    for (const name of this.settings.keys()) {
      if ([...this.devices.values()].some(({ tenants }) => tenants.has(name))) continue;
      this.settings.delete(name);
      return;
    }
  }

  /** A client says that its counters have changed: the next pass looks at them. */
  ring(client: Client): void {
    this.rung.add(client);
  }

  /** A pass that looks at everybody's counters. */
  step(nowNs: number): void {
    this.applyAll();
    for (const device of this.devices.values()) this.look(device, nowNs);
    this.pass(nowNs);
  }

  /** Counters of those who rang become grants, on devices where something has changed. */
  pass(nowNs: number): void {
    this.applyAll();
    for (const { seats } of this.rung) {
      for (const { device, page } of seats.values()) {
        if (device.columns.read(page.index, nowNs, device.limited.size > 0)) device.isMarked = true;
      }
    }
    this.rung.clear();
    for (const device of this.devices.values()) {
      if (!device.isMarked) continue;
      if (nowNs - device.lookedNs > LOOK_NS) this.look(device, nowNs);
      this.decide(device, nowNs);
    }
  }

  /** Once for all that came and went: a tenant may have a thousand contexts. */
  private applyAll(): void {
    for (const device of this.devices.values()) {
      for (const tenant of device.changed) this.apply(device, tenant);
      device.changed.clear();
    }
  }

  private look(device: Device, nowNs: number): void {
    device.lookedNs = nowNs;
    const isLimited = device.limited.size > 0;
    // Who has become idle leaves its part of the requests to others.
    if (device.columns.readAll(nowNs, isLimited) || isLimited) device.isMarked = true;
  }

  private decide(device: Device, nowNs: number): void {
    const { coordinator, seats, columns } = device;
    device.isMarked = false;
    coordinator.step(this.rules, nowNs);
    coordinator.share(device, nowNs, ANY_NS);
    for (const tenant of device.limited) this.limit(device, tenant, nowNs);
    columns.writeAll();
    for (const index of coordinator.takeChanges()) this.tell(seats[index]?.client);
  }

  private limit(device: Device, tenant: Tenant, nowNs: number): void {
    const { limits, seats } = tenant;
    if (limits === null) return;
    limit([...seats], limits, nowNs, ({ client, page }) => {
      device.coordinator.members.marks[page.index] |= M.OTHERS_CHANGED;
      this.tell(client);
    });
    if (limits.maxQps > 0 || limits.maxRequestsPerS > 0) return;
    tenant.limits = null;
    device.limited.delete(tenant);
  }

  private tell(client: Client | undefined): void {
    if (client === undefined || client.isToTell) return;
    client.isToTell = true;
    this.told.push(client);
  }

  /** Clients that have a grant which is another now, each once; some may have gone. */
  takeTold(): Client[] {
    const clients = this.told;
    for (const client of clients) client.isToTell = false;
    this.told = [];
    return clients;
  }

  /** Whether anybody is there whose silence would be news. */
  get isWatching(): boolean {
    for (const { columns, limited } of this.devices.values()) {
      if (columns.actives > 0 || limited.size > 0) return true;
    }
    return false;
  }

  /** Tenants by device, as `isoverbs tenants` shows them. */
  tenants(): TenantRow[] {
    this.applyAll();
    return [...this.devices.values()].flatMap((device) =>
      [...device.tenants.values()].map((tenant) => rowOf(device, tenant)),
    );
  }
}

/** What it has sent is its tenant's. */
function count({ tenant, theirs, counted }: Seat): void {
  add(tenant.total, counted, theirs);
}

/** Null: none of them is above 0. */
function largest(values: readonly number[]): number | null {
  return Math.max(...values) || null;
}

/** Of those that are above 0; null: there is none. */
function strictest(limits: readonly number[]): number | null {
  const some = limits.filter((value) => value > 0);
  return some.length === 0 ? null : Math.min(...some);
}

const finite = (value: number) => (value > 0 ? Math.min(value, MOST_SHOWN) : 0);

/** What contexts of a tenant say and may, in all. */
function summed(seats: Iterable<Seat>) {
  const sum = {
    kind: 0,
    why: 0,
    qps: 0,
    wireGbps: 0,
    held: 0,
    latencyNs: 0,
    ratedGbps: 0,
    otherGbps: 0,
    split: 0,
    allow: 0,
  };
  const pids = new Set<number>();
  for (const seat of seats) {
    count(seat);
    const { theirs, page } = seat;
    const { counters, grants } = page;
    pids.add(seat.client.pid);
    // Of its class and rate the daemon has what it decided by.
    sum.kind = Math.max(sum.kind, finite(counters[M.CLASS]));
    sum.wireGbps += finite(counters[M.WIRE_GBPS]);
    sum.qps += finite(theirs[M.QPS]);
    sum.held += finite(theirs[M.HELD_REQUESTS]);
    sum.latencyNs = Math.max(sum.latencyNs, finite(theirs[M.LATENCY_NS]));
    if (counters[M.RATED_QPS] >= 1) sum.ratedGbps += grants[M.RATE_GBPS];
    else sum.otherGbps = Math.max(sum.otherGbps, grants[M.RATE_GBPS]);
    sum.why = Math.max(sum.why, grants[M.WHY]);
    sum.split = Math.max(sum.split, grants[M.SPLIT]);
    sum.allow = Math.max(sum.allow, grants[M.QNUM_ALLOW]);
  }
  return { ...sum, processes: pids.size };
}

function rowOf(device: Device, { name, number, seats, total, limits }: Tenant): TenantRow {
  const sum = summed(seats);
  return {
    device: device.name,
    tenant: name,
    weight: device.weights.get(number) ?? 1,
    gbps: device.ratesGbps.get(number) ?? null,
    class: CLASS_NAMES[sum.kind] ?? 'idle',
    why: REASONS[sum.why] ?? '',
    contexts: seats.size,
    processes: sum.processes,
    qps: sum.qps,
    wireGbps: sum.wireGbps,
    sentRequests: total.sentRequests,
    sentBytes: total.sentBytes,
    heldRequests: sum.held,
    latencyNs: sum.latencyNs,
    maxQps: limits?.maxQps || null,
    maxRequestsPerS: limits?.maxRequestsPerS || null,
    // Who takes no part of it has what it would get: that is no more of the link, only another claim to it.
    rateGbps: sum.ratedGbps > 0 ? sum.ratedGbps : sum.otherGbps,
    split: sum.split === 1,
    qNumAllow: sum.allow,
  };
}
