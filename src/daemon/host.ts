/**
 * The coordinators of a host's devices, and the clients whose contexts are their members. There is no socket
 * and no clock here. Each event marks what it affects, a pass decides about everything marked, and the caller
 * then takes the clients to notify. A client can write its counters at any time, so they are copied before
 * anything is decided; values are trusted only as far as src/coordinator trusts them.
 */
import { Coordinator } from '../coordinator/coordinator.ts';
import { type LayoutNames, layoutNames } from '../coordinator/layout.ts';
import { limits } from '../coordinator/limits.ts';
import * as M from '../coordinator/member-table.ts';
import type { Description, Ruler } from '../coordinator/ruler.ts';
import { SUM_NAMES } from '../shim/counters.ts';
import { NoDeviceError } from '../verbs/errors.ts';
import type { NicFacts } from '../verbs/nic.ts';
import {
  type Client,
  type CoordinatorSide,
  coordinatorSideOf,
  type Device,
  deviceRowOf,
  type Ruling,
  rulesOn,
  type Seat,
  type Tenant,
} from './devices.ts';
import { GroupNews, TenantGroups } from './groups.ts';
import { Places } from './identity/places.ts';
import { type ProcessState, SILENT_NS } from './liveness.ts';
import { type PageShape, pageShapeOf, rowAt, SEATS_PER_CLIENT } from './pages.ts';
import type { DeviceRow, GivenLabels, TenantRow } from './protocol.ts';
import type { Identity } from './rules.ts';
import { SeatTable } from './seat-table.ts';
import { NOTHING_SAID, rowOf, updateTotal } from './tenant-rows.ts';
import { declare, givenLabels, type Setting, settingsOf, UNSET } from './tenant-settings.ts';
import { Accounts, beginLimits, settle } from './tenants/accounts.ts';
import { OperatorSettings } from './tenants/operator-settings.ts';
import { RateNews, TenantRates } from './tenants/rates.ts';
import { type Total, Totals } from './tenants/totals.ts';

/**
 * A pass reads the counters of clients that sent a signal. If all others were last read longer ago than this,
 * it reads them too, so that no client can be silent without being noticed.
 */
const FULL_READ_NS = SILENT_NS / 3;
/** Keeps a tenant that opens context after context from taking all seats. */
const MAX_SEATS_PER_TENANT = 1024;

export interface HostOptions {
  /** The rulers of all policies that clients may have, in the order in which they decide. */
  readonly rulings: readonly Ruling[];
  /** The rate of a device's link; 0 if unknown, null if there is no such device. */
  linkGbps(device: string): number | null;
  /** What is known of a device's NIC. Absent or null: nothing. */
  nicOf?(device: string): NicFacts | null;
  /** Whether a device is simulated in each process. Default: none is. */
  isSimulated?(device: string): boolean;
  /** A ruler has thrown. Absent: the exception is the caller's. */
  failed?(ruler: string, device: string, error: Error): void;
  /** A context has left its row at a device. */
  left?(device: string, row: number): void;
  /** The rulers of a device have decided. */
  decided?(device: string): void;
  /** Inspects a process that gives no sign of life. Absent or null: nothing is known about the process. */
  inspectProcess?(pid: number): ProcessState | null;
}

export class Host {
  private readonly options: HostOptions;
  private readonly devices = new Map<string, Device>();
  private readonly settings = new OperatorSettings();
  private toNotify: Client[] = [];
  /** Seats whose labels have changed since their clients last received them. */
  private readonly relabelled = new Set<Seat>();
  readonly groups = new GroupNews();
  readonly rates = new RateNews<Seat>();
  private readonly totals = new Totals();
  private readonly accounts = new Accounts();
  /** Clients whose counters the next pass reads. */
  private readonly dirtyClients = new Set<Client>();
  /** Those that decide now and then, and those that decide in each pass of busy mode. */
  private readonly rulings: readonly Ruling[];
  private readonly busyRulings: readonly Ruling[];
  /** The columns of a client's seat, and the memory that it takes. */
  readonly layout: LayoutNames;
  readonly shape: PageShape;

  constructor(options: HostOptions) {
    this.options = options;
    this.rulings = options.rulings.filter(({ ruler }) => !ruler.isForBusy);
    this.busyRulings = options.rulings.filter(({ ruler }) => ruler.isForBusy);
    this.layout = layoutNames([M.MEMBER, M.TENANT, ...options.rulings.map(({ ruler }) => ruler)]);
    this.shape = pageShapeOf(this.layout);
  }

  /**
   * Makes a context of a client a member of a device's coordinator; its grants follow with the next pass.
   * @param isReturning whether the context has just left its seat
   * @returns null, or the reason why it cannot join
   */
  join(
    client: Client,
    seatNumber: number,
    deviceName: string,
    nowNs: number,
    declaredTenant = '',
    isReturning = false,
  ): string | null {
    if (!(seatNumber < SEATS_PER_CLIENT))
      return `there is no seat ${seatNumber}: a client has ${SEATS_PER_CLIENT}`;
    if (client.seats.has(seatNumber)) return `seat ${seatNumber} is taken`;
    const device = this.device(deviceName);
    if (device === null) return `the daemon knows no device '${deviceName}'`;
    const { hasTenants, owner, tenant: ownTenant } = client.identity;
    const refusal = isReturning ? null : device.places.refusal(owner, device.guests.size, deviceName);
    if (refusal !== null) return refusal;
    const name = declaredTenant !== '' && hasTenants ? declaredTenant : ownTenant;
    if ((device.tenants.get(name)?.seats.size ?? 0) >= MAX_SEATS_PER_TENANT) {
      return `tenant ${name} already has ${MAX_SEATS_PER_TENANT} contexts at ${deviceName}, the most that a tenant may have`;
    }
    const page = device.coordinator.join(name);
    if (page === null) return `all seats at ${deviceName} are taken`;
    const tenant = this.tenant(device, name);
    const { counters, grants } = rowAt(client.pages, seatNumber, this.shape);
    device.seatTable.add(page.row, { counters, grants }, client.pid, nowNs);
    // What the counters show now was sent before this seat was taken.
    const sums = counters.slice(M.SUMS, M.SUMS + SUM_NAMES.length);
    const counted = { requests: counters[M.SENT_REQUESTS], bytes: counters[M.SENT_BYTES], sums };
    const seat: Seat = {
      client,
      seatNumber,
      device,
      tenant,
      owner,
      declaredTenant,
      page,
      clientCounters: counters,
      counted,
      // What was spent while the client waited for the seat counts, too.
      paid: { requests: 0, bytes: 0 },
      groups: new Map(),
      hasLabels: false,
    };
    device.seats[page.row] = seat;
    device.places.take(owner);
    tenant.seats.add(seat);
    client.seats.set(seatNumber, seat);
    device.changedTenants.add(tenant);
    device.isDirty = true;
    this.dirtyClients.add(client);
    this.groups.joined(seat);
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
    for (const { seatNumber, device, declaredTenant, hasLabels, groups } of [...client.seats.values()]) {
      const groupsBefore = new Map(groups);
      this.leave(client, seatNumber, nowNs);
      const refusal = this.join(client, seatNumber, device.name, nowNs, declaredTenant, true);
      hasAllSeats &&= refusal === null;
      const seat = client.seats.get(seatNumber);
      if (seat === undefined) continue;
      this.groups.moved(seat, groupsBefore);
      if (!hasLabels) continue;
      seat.hasLabels = true;
      this.relabelled.add(seat);
    }
    return hasAllSeats;
  }

  /** Frees everything that a disconnected client had. */
  forget(client: Client, nowNs: number): void {
    for (const seat of client.seats.values()) this.remove(seat, nowNs);
    this.dirtyClients.delete(client);
  }

  private remove(seat: Seat, nowNs: number): void {
    const { client, seatNumber, device, tenant, owner, page } = seat;
    updateTotal(seat);
    tenant.account.read(seat.clientCounters, seat.paid);
    client.seats.delete(seatNumber);
    tenant.seats.delete(seat);
    this.groups.left(seat);
    this.rates.left(seat);
    this.relabelled.delete(seat);
    this.options.left?.(device.name, page.row);
    device.seats[page.row] = undefined;
    device.places.release(owner);
    device.seatTable.remove(page.row);
    device.coordinator.leave(page);
    device.isDirty = true;
    if (tenant.seats.size > 0) {
      device.changedTenants.add(tenant);
      return;
    }
    device.tenants.delete(tenant.name);
    if (device.limitedTenants.delete(tenant)) settle(device.isSimulated, [tenant], nowNs);
    device.changedTenants.delete(tenant);
    this.totals.leave(tenant.total, nowNs);
    this.accounts.leave(device.name, tenant.name, tenant.account, nowNs);
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
    const { shape, options } = this;
    // A row of the table has exactly the columns of a client's page.
    const buffer = new ArrayBuffer(M.memberTableBytes(M.DEFAULT_CAPACITY, shape));
    const table = new M.MemberTable(buffer, M.DEFAULT_CAPACITY, shape);
    for (const { ruler } of options.rulings) table.layout.add(ruler);
    table.linkGbps = linkGbps;
    const coordinator = new Coordinator(table, 'by owner');
    const nic = options.nicOf?.(name) ?? null;
    const device: Device = {
      name,
      coordinator,
      rules: new Map(options.rulings.map((ruling) => [ruling, rulesOn(ruling, nic)])),
      seats: [],
      seatTable: new SeatTable(table, options.inspectProcess ?? (() => null)),
      places: new Places(M.DEFAULT_CAPACITY),
      tenants: new Map(),
      isSimulated: options.isSimulated?.(name) === true,
      limitedTenants: new Set(),
      changedTenants: new Set(),
      isDirty: false,
      fullReadNs: Number.NEGATIVE_INFINITY,
      guests: new Map(),
    };
    this.devices.set(name, device);
    return device;
  }

  private tenant(device: Device, name: string): Tenant {
    const known = device.tenants.get(name);
    if (known !== undefined) return known;
    const [seats, groups, rates] = [new Set<Seat>(), new TenantGroups(), new TenantRates()];
    const total = this.totals.enter(device.name, name);
    const account = this.accounts.enter(device.name, name);
    const tenant = { name, seats, total, account, settings: UNSET, groups, rates };
    device.tenants.set(name, tenant);
    return tenant;
  }

  /**
   * Derives a tenant's weight, rate, labels and limits from the operator's settings or the rules. Where its clients
   * differ, the largest weight and rate and the strictest limits apply, so the order in which clients come
   * does not matter.
   */
  private applySettings(device: Device, tenant: Tenant): void {
    const identities = new Set([...tenant.seats].map(({ client }) => client.identity));
    const known = JSON.stringify(givenLabels(tenant.settings));
    const isNew = tenant.settings === UNSET;
    tenant.settings = settingsOf([...identities], this.settings.of(tenant.name));
    const hasNewRates = tenant.rates.fix(tenant.settings.rates);
    if (hasNewRates || JSON.stringify(givenLabels(tenant.settings)) !== known) {
      for (const seat of tenant.seats) this.relabelled.add(seat);
    }
    this.groups.fix(tenant, tenant.settings.groups);
    // While nothing is limited, passes need not read statistics.
    const { maxQps, maxRequestsPerS, gbps } = tenant.settings;
    if (maxQps + maxRequestsPerS + (gbps ?? 0) === 0) device.limitedTenants.delete(tenant);
    else beginLimits(device.limitedTenants, tenant, isNew);
    const left = tenant.account.inForce(tenant.settings);
    for (const { page } of tenant.seats) declare(page, left);
  }

  /** Whether a tenant has a context on any device. */
  isPresent(tenant: string): boolean {
    return [...this.devices.values()].some(({ tenants }) => tenants.has(tenant));
  }

  /**
   * Sets what a tenant gets, which also applies to a tenant that comes later.
   * @returns whether the tenant is present; or why the setting is refused
   */
  set(tenant: string, setting: Setting): boolean | string {
    const present = [...this.devices.values()].filter(({ tenants }) => tenants.has(tenant));
    const links = present.map(({ coordinator }) => coordinator.members.linkGbps);
    const refusal = this.settings.change(tenant, setting, links, (name) => this.isPresent(name));
    if (refusal !== null) return refusal;
    for (const device of present) {
      device.isDirty = true;
      this.applySettings(device, device.tenants.get(tenant)!);
    }
    return present.length > 0;
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

  /**
   * A pass of busy mode, which follows another one at once: reads the counters of all clients, and lets the rulers of busy
   * mode decide. Returns whether other rulers have decided, so that clients may have to be notified.
   */
  busyPass(nowNs: number): boolean {
    this.applyChangedSettings();
    this.dirtyClients.clear();
    let hasDecided = false;
    for (const device of this.devices.values()) {
      if (!(nowNs - device.fullReadNs <= FULL_READ_NS)) this.readAllSeats(device, nowNs);
      if (device.seatTable.readBusy(device.limitedTenants.size > 0)) device.isDirty = true;
      if (device.isDirty) {
        this.decide(device, nowNs);
        hasDecided = true;
      }
      for (const ruling of this.busyRulings) this.decideBusy(device, ruling, nowNs);
      device.seatTable.writeAll();
    }
    return hasDecided;
  }

  private decideBusy({ coordinator, name, rules }: Device, ruling: Ruling, nowNs: number): void {
    const { ruler } = ruling;
    try {
      coordinator.decide(ruler, rules.get(ruling), nowNs);
    } catch (error) {
      if (this.options.failed === undefined) throw error;
      this.options.failed(ruler.name, name, error as Error);
    }
  }

  /** Whether any context has a seat. */
  get hasSeats(): boolean {
    for (const { tenants } of this.devices.values()) if (tenants.size > 0) return true;
    return false;
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
    settle(device.isSimulated, device.limitedTenants, nowNs);
    for (const ruling of this.rulings) {
      const { ruler } = ruling;
      this.guard(ruler, device, () => coordinator.decide(ruler, device.rules.get(ruling), nowNs));
    }
    coordinator.decide(limits, null, nowNs);
    seatTable.writeAll();
    for (const index of coordinator.takeChanges()) {
      this.queueNotification(seats[index]?.client);
      device.guests.get(index)?.();
    }
    this.options.decided?.(device.name);
  }

  /** The device and row of a client's seat; undefined if there is no such seat. */
  placeOf(client: Client, seatNumber: number): { device: string; row: number } | undefined {
    const seat = client.seats.get(seatNumber);
    return seat && { device: seat.device.name, row: seat.page.row };
  }

  /**
   * The actions of agents at a device's coordinator. Changes take effect in the next pass, which `requestPass` requests.
   */
  agentCoordinator(deviceName: string, requestPass: () => void): CoordinatorSide {
    const device = this.device(deviceName);
    if (device === null) throw new NoDeviceError(`the daemon knows no device '${deviceName}'`);
    return coordinatorSideOf(device, requestPass);
  }

  /** Grants of a ruler that throws stay as they are. Null: it has thrown. */
  private guard<T>(ruler: Ruler, { name }: Device, call: () => T): T | null {
    try {
      return call();
    } catch (error) {
      if (this.options.failed === undefined) throw error;
      this.options.failed(ruler.name, name, error as Error);
      return null;
    }
  }

  private queueNotification(client: Client | undefined): void {
    if (client === undefined || client.isNotificationQueued) return;
    client.isNotificationQueued = true;
    this.toNotify.push(client);
  }

  /** Clients with a changed grant, each once. Some may have disconnected in the meantime. */
  takeClientsToNotify(): Client[] {
    const clients = this.toNotify;
    for (const client of clients) client.isNotificationQueued = false;
    this.toNotify = [];
    return clients;
  }

  /** Seats whose labels or rates have changed since their clients received them, each once. */
  takeRelabelled(nowNs: number): readonly Pick<Seat, 'client' | 'seatNumber' | 'tenant'>[] {
    for (const seat of this.rates.take(nowNs)) this.relabelled.add(seat);
    const seats = [...this.relabelled].filter(({ hasLabels }) => hasLabels);
    this.relabelled.clear();
    return seats;
  }

  /** The labels that the daemon gives to the context in a seat, which its client is about to receive. */
  giveLabels(client: Client, seatNumber: number): GivenLabels {
    const seat = client.seats.get(seatNumber);
    if (seat === undefined) return {};
    seat.hasLabels = true;
    return givenLabels(seat.tenant.settings);
  }

  /** Whether there are members whose silence would change grants, or something waits to be sent. */
  get needsTicks(): boolean {
    if (this.groups.isPending || this.rates.isPending) return true;
    for (const { seatTable, limitedTenants } of this.devices.values()) {
      if (seatTable.activeCount > 0 || limitedTenants.size > 0) return true;
    }
    return false;
  }

  /** Tenants by device, as `isoverbs tenants` shows them. */
  tenants(): TenantRow[] {
    this.applyChangedSettings();
    return [...this.devices.values()].flatMap((device) =>
      [...device.tenants.values()].map((tenant) => ({
        ...NOTHING_SAID,
        ...this.describe(device, tenant),
        ...rowOf(device.name, tenant),
      })),
    );
  }

  /** The devices that have had tenants, with what is known of them. */
  shownDevices(): DeviceRow[] {
    return [...this.devices.values()].map((one) => deviceRowOf(one, this.options.nicOf?.(one.name) ?? null));
  }

  /** What the rulers say of a tenant. */
  private describe(device: Device, { seats }: Tenant): Description {
    const [{ page }] = seats;
    const { rulings } = this.options;
    const ordered = [...rulings.filter((one) => !one.isNamed), ...rulings.filter((one) => one.isNamed)];
    const said = ordered.map(({ ruler }) =>
      this.guard(ruler, device, () => device.coordinator.describe(ruler, page.row)),
    );
    return Object.assign({}, ...said);
  }
}
