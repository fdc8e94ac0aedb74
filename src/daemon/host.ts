/**
 * The coordinators of a host's devices, and the clients whose contexts are their members. There is no socket
 * and no clock here. Each event marks what it affects, a pass decides about everything marked, and the caller
 * then takes the clients to notify. A client can write its counters at any time, so they are copied before
 * anything is decided; values are trusted only as far as src/coordinator trusts them.
 */
import { Coordinator, tenantId } from '../coordinator/coordinator.ts';
import { type MasterRules, REASONS } from '../coordinator/master.ts';
import * as M from '../coordinator/member-table.ts';
import type { ShareRules } from '../coordinator/shares.ts';
import { type LimitedSeat, limit, type TenantLimits } from './limits.ts';
import { type ProcessState, SILENT_NS } from './liveness.ts';
import { columnsAt, type Pages, SEATS_PER_CLIENT } from './pages.ts';
import type { TenantRow } from './protocol.ts';
import { CLASSES, type Identity } from './rules.ts';
import { ANY_NS, SeatTable } from './seat-table.ts';
import { addSent, type Counted, type Total, Totals } from './totals.ts';

/**
 * A pass reads the counters of clients that sent a signal. If all others were last read longer ago than this,
 * it reads them too, so that no client can be silent without being noticed.
 */
const FULL_READ_NS = SILENT_NS / 3;
/** Tenants for which an operator's settings are kept. */
const MAX_SETTINGS = 4096;
/** Keeps a tenant that opens context after context from taking all seats. */
const MAX_SEATS_PER_TENANT = 1024;
/** Assumed for a link of unknown rate, so high that a share of it limits no tenant. */
const UNKNOWN_LINK_GBPS = 1e5;
/** More than any page can truthfully report. */
const MAX_SHOWN = 2 ** 53;
/** By class number (src/coordinator/member-table.ts). */
const CLASS_NAMES = ['idle', ...CLASSES];

/** A context of a client at one device. */
interface Seat extends LimitedSeat {
  readonly client: Client;
  readonly seatNumber: number;
  readonly device: Device;
  readonly tenant: Tenant;
  /** The tenant that the program named; '' if it named none. */
  readonly declaredTenant: string;
  readonly page: M.MemberPage;
  /** The counters as the client writes them. */
  readonly clientCounters: Float64Array;
  /** The part of the sent requests and bytes that the tenant's total already includes. */
  readonly counted: Counted;
}

/** A tenant with contexts at a device. */
interface Tenant {
  readonly name: string;
  readonly number: number;
  readonly seats: Set<Seat>;
  readonly total: Total;
  /** Null if there are none. */
  limits: TenantLimits | null;
}

interface Device extends ShareRules {
  readonly name: string;
  readonly coordinator: Coordinator;
  /** By row of the member. */
  readonly seats: (Seat | undefined)[];
  readonly seatTable: SeatTable;
  readonly tenants: Map<string, Tenant>;
  /** Tenants that have limits. */
  readonly limitedTenants: Set<Tenant>;
  /** Tenants whose contexts came or went since the last pass, whose settings must be derived again. */
  readonly changedTenants: Set<Tenant>;
  /** By tenant ID. */
  readonly weights: Map<number, number>;
  readonly ratesGbps: Map<number, number>;
  revision: number;
  /** Whether something has changed since the last pass. */
  isDirty: boolean;
  /** When all seats were last read. */
  fullReadNs: number;
}

/** A client process, or one thread of it. */
export class Client {
  identity: Identity;
  readonly pages: Pages;
  readonly pid: number;
  /** By seat number. */
  readonly seats = new Map<number, Seat>();
  /** Whether a grant has changed and the client has not been notified yet. */
  isNotificationQueued = false;

  constructor(identity: Identity, pages: Pages, pid: number) {
    this.identity = identity;
    this.pages = pages;
    this.pid = pid;
  }
}

export interface HostOptions {
  /** The rules of PeRF's master. */
  readonly rules: Omit<MasterRules, 'silentNs' | 'rotateFrom'>;
  /** The rate of a device's link; 0 if unknown, null if there is no such device. */
  linkGbps(device: string): number | null;
  /** Inspects a process that gives no sign of life. Absent or null: nothing is known about the process. */
  inspectProcess?(pid: number): ProcessState | null;
}

/** What an operator has set for a tenant; it takes precedence over the rules. */
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
  private toNotify: Client[] = [];
  private readonly totals = new Totals();
  /** Clients whose counters the next pass reads. */
  private readonly dirtyClients = new Set<Client>();
  private readonly rules: MasterRules;

  constructor(options: HostOptions) {
    this.options = options;
    // Tenant slots are shorter than a round trip to the daemon, so tenants never rotate here.
    this.rules = { ...options.rules, silentNs: ANY_NS, rotateFrom: Number.POSITIVE_INFINITY };
  }

  /**
   * Makes a context of a client a member of a device's coordinator; its grants follow with the next pass.
   * @returns null, or the reason why it cannot join
   */
  join(
    client: Client,
    seatNumber: number,
    deviceName: string,
    nowNs: number,
    declaredTenant = '',
  ): string | null {
    if (!(seatNumber < SEATS_PER_CLIENT))
      return `there is no seat ${seatNumber}: a client has ${SEATS_PER_CLIENT}`;
    if (client.seats.has(seatNumber)) return `seat ${seatNumber} is taken`;
    const device = this.device(deviceName);
    if (device === null) return `the daemon knows no device '${deviceName}'`;
    const { identity } = client;
    const name = declaredTenant !== '' && identity.hasTenants ? declaredTenant : identity.tenant;
    if ((device.tenants.get(name)?.seats.size ?? 0) >= MAX_SEATS_PER_TENANT) {
      return `tenant ${name} already has ${MAX_SEATS_PER_TENANT} contexts at ${deviceName}, the most that a tenant may have`;
    }
    const page = device.coordinator.join(name);
    if (page === null) return `all seats at ${deviceName} are taken`;
    const tenant = this.tenant(device, name);
    const { counters, grants } = columnsAt(client.pages, seatNumber);
    const declared = identity.class === null ? M.IDLE : CLASS_NAMES.indexOf(identity.class);
    device.seatTable.add(page.row, { counters, grants }, client.pid, declared, nowNs);
    // What the counters show now was sent before this seat was taken.
    const counted = { requests: counters[M.SENT_REQUESTS], bytes: counters[M.SENT_BYTES] };
    const seat: Seat = {
      client,
      seatNumber,
      device,
      tenant,
      declaredTenant,
      page,
      clientCounters: counters,
      lastSentRequests: counted.requests,
      lastSentNs: Number.NEGATIVE_INFINITY,
      counted,
    };
    device.seats[page.row] = seat;
    tenant.seats.add(seat);
    client.seats.set(seatNumber, seat);
    device.changedTenants.add(tenant);
    device.isDirty = true;
    this.dirtyClients.add(client);
    return null;
  }

  leave(client: Client, seatNumber: number, nowNs: number): void {
    const seat = client.seats.get(seatNumber);
    if (seat !== undefined) this.remove(seat, nowNs);
  }

  /**
   * Gives a client a new identity after the rules have changed.
   * @returns whether all its contexts have a seat; those without have left
   */
  reidentify(client: Client, identity: Identity, nowNs: number): boolean {
    client.identity = identity;
    let hasAllSeats = true;
    for (const { seatNumber, device, declaredTenant } of [...client.seats.values()]) {
      this.leave(client, seatNumber, nowNs);
      if (this.join(client, seatNumber, device.name, nowNs, declaredTenant) !== null) hasAllSeats = false;
    }
    return hasAllSeats;
  }

  /** Frees everything that a disconnected client had. */
  forget(client: Client, nowNs: number): void {
    for (const seat of client.seats.values()) this.remove(seat, nowNs);
    this.dirtyClients.delete(client);
  }

  private remove(seat: Seat, nowNs: number): void {
    const { client, seatNumber, device, tenant, page } = seat;
    updateTotal(seat);
    client.seats.delete(seatNumber);
    tenant.seats.delete(seat);
    device.seats[page.row] = undefined;
    device.seatTable.remove(page.row);
    device.coordinator.leave(page);
    device.isDirty = true;
    if (tenant.seats.size > 0) {
      device.changedTenants.add(tenant);
      return;
    }
    device.tenants.delete(tenant.name);
    device.limitedTenants.delete(tenant);
    device.changedTenants.delete(tenant);
    device.weights.delete(tenant.number);
    device.ratesGbps.delete(tenant.number);
    device.revision++;
    this.totals.leave(tenant.total, nowNs);
  }

  /** What tenants have sent, including those that left within the last hour. */
  sentTotals(nowNs: number): Total[] {
    for (const { seats } of this.devices.values()) {
      for (const seat of seats) if (seat !== undefined) updateTotal(seat);
    }
    return this.totals.all(nowNs);
  }

  /** Null if there is no such device. */
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
      seatTable: new SeatTable(coordinator.members, this.options.inspectProcess ?? (() => null)),
      tenants: new Map(),
      limitedTenants: new Set(),
      changedTenants: new Set(),
      weights: new Map(),
      ratesGbps: new Map(),
      revision: 0,
      isDirty: false,
      fullReadNs: Number.NEGATIVE_INFINITY,
    };
    this.devices.set(name, device);
    return device;
  }

  private tenant(device: Device, name: string): Tenant {
    const known = device.tenants.get(name);
    if (known !== undefined) return known;
    const total = this.totals.enter(device.name, name);
    const tenant = { name, number: tenantId(name), seats: new Set<Seat>(), total, limits: null };
    device.tenants.set(name, tenant);
    return tenant;
  }

  /**
   * Derives a tenant's weight, rate and limits from the operator's settings or the rules. Where its clients
   * differ, the largest weight and rate and the strictest limits apply, so the order in which clients come
   * does not matter.
   */
  private applySettings(device: Device, tenant: Tenant): void {
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
    device.limitedTenants.add(tenant);
  }

  /** @returns whether the tenant is present; the setting also applies to a tenant that comes later */
  set(tenant: string, setting: Setting): boolean {
    const merged = { ...this.settings.get(tenant), ...setting };
    // Reinserted at the end, so that the oldest settings are evicted first.
    this.settings.delete(tenant);
    this.settings.set(tenant, merged);
    this.evictSetting();
    let known = false;
    for (const device of this.devices.values()) {
      const here = device.tenants.get(tenant);
      if (here === undefined) continue;
      known = true;
      device.isDirty = true;
      this.applySettings(device, here);
    }
    return known;
  }

  /** Bounds the memory spent on tenants that are not present. */
  private evictSetting(): void {
    if (this.settings.size <= MAX_SETTINGS) return;
    for (const name of this.settings.keys()) {
      if ([...this.devices.values()].some(({ tenants }) => tenants.has(name))) continue;
      this.settings.delete(name);
      return;
    }
  }

  /** A client signals that its counters have changed; the next pass reads them. */
  markDirty(client: Client): void {
    this.dirtyClients.add(client);
  }

  /** A pass that reads the counters of all clients. */
  fullPass(nowNs: number): void {
    this.applyChangedSettings();
    for (const device of this.devices.values()) this.readAllSeats(device, nowNs);
    this.pass(nowNs);
  }

  /** Turns the counters of clients that sent a signal into grants, on devices where something has changed. */
  pass(nowNs: number): void {
    this.applyChangedSettings();
    for (const { seats } of this.dirtyClients) {
      for (const { device, page } of seats.values()) {
        if (device.seatTable.read(page.row, nowNs, device.limitedTenants.size > 0)) device.isDirty = true;
      }
    }
    this.dirtyClients.clear();
    for (const device of this.devices.values()) {
      if (!device.isDirty) continue;
      if (nowNs - device.fullReadNs > FULL_READ_NS) this.readAllSeats(device, nowNs);
      this.decide(device, nowNs);
    }
  }

  /** Once per tenant and pass, because a thousand contexts of a tenant may come or go between two passes. */
  private applyChangedSettings(): void {
    for (const device of this.devices.values()) {
      for (const tenant of device.changedTenants) this.applySettings(device, tenant);
      device.changedTenants.clear();
    }
  }

  private readAllSeats(device: Device, nowNs: number): void {
    device.fullReadNs = nowNs;
    const isLimited = device.limitedTenants.size > 0;
    // A context that has become idle leaves its part of the requests to others.
    if (device.seatTable.readAll(nowNs, isLimited) || isLimited) device.isDirty = true;
  }

  private decide(device: Device, nowNs: number): void {
    const { coordinator, seats, seatTable } = device;
    device.isDirty = false;
    coordinator.runPass(this.rules, nowNs);
    coordinator.share(device, nowNs, ANY_NS);
    for (const tenant of device.limitedTenants) this.applyLimits(device, tenant, nowNs);
    seatTable.writeAll();
    for (const index of coordinator.takeChanges()) this.queueNotification(seats[index]?.client);
  }

  private applyLimits(device: Device, tenant: Tenant, nowNs: number): void {
    const { limits, seats } = tenant;
    if (limits === null) return;
    limit([...seats], limits, nowNs, ({ client, page }) => {
      device.coordinator.members.marks[page.row] |= M.ISOLATION_CHANGED;
      this.queueNotification(client);
    });
    if (limits.maxQps > 0 || limits.maxRequestsPerS > 0) return;
    tenant.limits = null;
    device.limitedTenants.delete(tenant);
  }

  private queueNotification(client: Client | undefined): void {
    if (client === undefined || client.isNotificationQueued) return;
    client.isNotificationQueued = true;
    this.toNotify.push(client);
  }

  /** Clients with a changed grant, each once. Some may have disconnected meanwhile. */
  takeClientsToNotify(): Client[] {
    const clients = this.toNotify;
    for (const client of clients) client.isNotificationQueued = false;
    this.toNotify = [];
    return clients;
  }

  /** Whether there are members whose silence would change grants. */
  get needsTicks(): boolean {
    for (const { seatTable, limitedTenants } of this.devices.values()) {
      if (seatTable.activeCount > 0 || limitedTenants.size > 0) return true;
    }
    return false;
  }

  /** Tenants by device, as `isoverbs tenants` shows them. */
  tenants(): TenantRow[] {
    this.applyChangedSettings();
    return [...this.devices.values()].flatMap((device) =>
      [...device.tenants.values()].map((tenant) => rowOf(device, tenant)),
    );
  }
}

/** Adds what a seat has sent since the last call to its tenant's total. */
function updateTotal({ tenant, clientCounters, counted }: Seat): void {
  addSent(tenant.total, counted, clientCounters);
}

/** Null if no value is above 0. */
function largest(values: readonly number[]): number | null {
  return Math.max(...values) || null;
}

/** The smallest limit above 0; null if there is none. */
function strictest(limits: readonly number[]): number | null {
  const some = limits.filter((value) => value > 0);
  return some.length === 0 ? null : Math.min(...some);
}

const clamped = (value: number) => (value > 0 ? Math.min(value, MAX_SHOWN) : 0);

/** What a tenant's contexts report and may do, summed over all of them. */
function sumOf(seats: Iterable<Seat>) {
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
    updateTotal(seat);
    const { clientCounters, page } = seat;
    const { counters, grants } = page;
    pids.add(seat.client.pid);
    // Class and rate come from the copied counters, which the decision was based on.
    sum.kind = Math.max(sum.kind, clamped(counters[M.CLASS]));
    sum.wireGbps += clamped(counters[M.WIRE_GBPS]);
    sum.qps += clamped(clientCounters[M.QPS]);
    sum.held += clamped(clientCounters[M.HELD_REQUESTS]);
    sum.latencyNs = Math.max(sum.latencyNs, clamped(clientCounters[M.LATENCY_NS]));
    if (counters[M.RATED_QPS] >= 1) sum.ratedGbps += grants[M.RATE_GBPS];
    else sum.otherGbps = Math.max(sum.otherGbps, grants[M.RATE_GBPS]);
    sum.why = Math.max(sum.why, grants[M.REASON]);
    sum.split = Math.max(sum.split, grants[M.SPLIT]);
    sum.allow = Math.max(sum.allow, grants[M.QNUM_ALLOW]);
  }
  return { ...sum, processes: pids.size };
}

function rowOf(device: Device, { name, number, seats, total, limits }: Tenant): TenantRow {
  const sum = sumOf(seats);
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
    // A context that takes no part of the rate only shows what it could get: that is another claim to the
    // same link, not more of it.
    rateGbps: sum.ratedGbps > 0 ? sum.ratedGbps : sum.otherGbps,
    split: sum.split === 1,
    qNumAllow: sum.allow,
  };
}
