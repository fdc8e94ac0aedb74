/**
 * The coordinators of a host's devices, and the clients whose contexts are their members. No socket, no clock: what
 * happens is told, and what the clients are to hear is taken. A client's counters are memory that it may write at any
 * time: they are copied before anything is decided, and believed as far as src/coordinator believes them.
 */
import { Coordinator, tenantNumber } from '../coordinator/coordinator.ts';
import { type MasterRules, REASONS } from '../coordinator/master.ts';
import * as M from '../coordinator/members.ts';
import type { ShareRules } from '../coordinator/shares.ts';
import { columnsAt, type Pages, SLOTS } from './pages.ts';
import type { TenantRow } from './protocol.ts';
import { CLASSES, type Identity } from './rules.ts';

/** Who has written nothing for so long is stopped, or spins without a look at its queues. */
export const SILENT_NS = 60e6;
/** One that opens context after context does not take the places of all others. */
const MOST_PLACES_OF_A_TENANT = 1024;
/** A link of which nobody knows the rate: no share of it holds anybody back. */
const UNKNOWN_LINK_GBPS = 1e5;
/** More than any page may truthfully say. */
const MOST_SHOWN = 1e9;
/** By number (members.ts). */
const CLASS_NAMES = ['idle', ...CLASSES];

/** A context of a client at one device. */
interface Seat {
  readonly client: Client;
  readonly slot: number;
  readonly device: Device;
  readonly tenant: string;
  /** As the program named it; '': it did not. */
  readonly own: string;
  readonly page: M.MemberPage;
  /** What the client writes, and what it reads. */
  readonly theirs: Omit<M.MemberPage, 'index'>;
  beat: number;
  seen: number;
  aliveNs: number;
}

interface Device {
  readonly name: string;
  readonly coordinator: Coordinator;
  readonly linkGbps: number;
  /** By place of a member. */
  readonly seats: (Seat | undefined)[];
  /** By tenant's number. */
  readonly weights: Map<number, number>;
  readonly ratesGbps: Map<number, number>;
}

/** A process, or a thread of one. */
export class Client {
  identity: Identity;
  readonly pages: Pages;
  readonly pid: number;
  /** By slot. */
  readonly seats = new Map<number, Seat>();

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
}

/** What an operator has set for a tenant, beside what the rules say. */
interface Setting {
  weight?: number;
  gbps?: number | null;
}

export class Host {
  private readonly options: HostOptions;
  private readonly devices = new Map<string, Device>();
  private readonly settings = new Map<string, Setting>();
  private readonly told = new Set<Client>();

  constructor(options: HostOptions) {
    this.options = options;
  }

  /** A context of a client is a member of a device's coordinator from now on. Why not, if it cannot. */
  join(client: Client, slot: number, device: string, nowNs: number, own = ''): string | null {
    if (!(slot < SLOTS)) return `there are ${SLOTS} places, and no ${slot}`;
    if (client.seats.has(slot)) return `place ${slot} is taken`;
    const at = this.device(device);
    if (at === null) return `the daemon knows no device '${device}'`;
    const { identity } = client;
    const tenant = own !== '' && identity.hasTenants ? own : identity.tenant;
    const isOfTenant = (seat: Seat | undefined) => seat?.tenant === tenant;
    if (at.seats.filter(isOfTenant).length >= MOST_PLACES_OF_A_TENANT) {
      return `${tenant} has ${MOST_PLACES_OF_A_TENANT} contexts at ${device}, and no place for more`;
    }
    const page = at.coordinator.join(tenant);
    if (page === null) return `${device} has no place for one more context`;
    const theirs = columnsAt(client.pages, slot);
    theirs.grants.fill(0);
    const seat: Seat = {
      client,
      slot,
      device: at,
      tenant,
      own,
      page,
      theirs,
      beat: Number.NaN,
      seen: Number.NaN,
      aliveNs: nowNs,
    };
    at.seats[page.index] = seat;
    client.seats.set(slot, seat);
    this.apply(seat);
    this.pass(at, nowNs);
    return null;
  }

  leave(client: Client, slot: number, nowNs: number): void {
    const seat = client.seats.get(slot);
    if (seat === undefined) return;
    this.remove(seat);
    this.pass(seat.device, nowNs);
  }

  /** A client is somebody else from now on: the rules have changed. */
  reidentify(client: Client, identity: Identity, nowNs: number): void {
    client.identity = identity;
    const seats = [...client.seats.values()];
    for (const { slot, device, own } of seats) {
      this.leave(client, slot, nowNs);
      this.join(client, slot, device.name, nowNs, own);
    }
  }

  /** The client has gone: what it had is free. */
  forget(client: Client, nowNs: number): void {
    const devices = new Set([...client.seats.values()].map(({ device }) => device));
    for (const seat of client.seats.values()) this.remove(seat);
    this.told.delete(client);
    for (const device of devices) this.pass(device, nowNs);
  }

  private remove({ client, slot, device, tenant, page }: Seat): void {
    client.seats.delete(slot);
    device.seats[page.index] = undefined;
    device.coordinator.leave(page);
    if (device.seats.some((seat) => seat?.tenant === tenant)) return;
    device.weights.delete(tenantNumber(tenant));
    device.ratesGbps.delete(tenantNumber(tenant));
  }

  /** Null: there is none. */
  private device(name: string): Device | null {
    const known = this.devices.get(name);
    if (known !== undefined) return known;
    const linkGbps = this.options.linkGbps(name);
    if (linkGbps === null) return null;
    const device = {
      name,
      coordinator: new Coordinator(),
      linkGbps: linkGbps > 0 ? linkGbps : UNKNOWN_LINK_GBPS,
      seats: [],
      weights: new Map(),
      ratesGbps: new Map(),
    };
    this.devices.set(name, device);
    return device;
  }

  /** What a tenant is to get, as the rules or the operator have it. */
  private apply({ device, tenant, client: { identity } }: Seat): void {
    const number = tenantNumber(tenant);
    const { weight = identity.weight, gbps = identity.gbps } = this.settings.get(tenant) ?? {};
    device.weights.set(number, weight);
    if (gbps === null) device.ratesGbps.delete(number);
    else device.ratesGbps.set(number, gbps);
  }

  /** @returns whether there is such a tenant now; what is set holds for one that comes later, too */
  set(tenant: string, setting: Setting, nowNs: number): boolean {
    this.settings.set(tenant, { ...this.settings.get(tenant), ...setting });
    let known = false;
    for (const device of this.devices.values()) {
      for (const seat of device.seats) {
        if (seat?.tenant !== tenant) continue;
        known = true;
        this.apply(seat);
      }
      this.pass(device, nowNs);
    }
    return known;
  }

  /** Counters become grants, on all devices or on those where a client is. */
  step(nowNs: number, client?: Client): void {
    const devices =
      client === undefined
        ? this.devices.values()
        : new Set([...client.seats.values()].map(({ device }) => device));
    for (const device of devices) this.pass(device, nowNs);
  }

  private pass(device: Device, nowNs: number): void {
    const { coordinator, seats } = device;
    for (const seat of seats) if (seat !== undefined) read(seat, nowNs);
    // Slots are shorter than a message to the daemon and back takes: nobody rotates.
    const rules = { ...this.options.rules, silentNs: SILENT_NS, rotateFrom: Number.POSITIVE_INFINITY };
    coordinator.step(rules, nowNs);
    coordinator.share(shareRules(device), nowNs, SILENT_NS);
    for (const seat of seats) if (seat !== undefined) write(seat);
    for (const index of coordinator.takeChanges()) {
      const seat = seats[index];
      if (seat !== undefined) this.told.add(seat.client);
    }
  }

  /** Clients that have a grant which is another now, each once. */
  takeTold(): Client[] {
    const clients = [...this.told];
    this.told.clear();
    return clients;
  }

  /** Whether anybody is there whose silence would be news. */
  get isWatching(): boolean {
    for (const { seats } of this.devices.values()) {
      for (const seat of seats) {
        if (seat === undefined) continue;
        if (seat.page.counters[M.RATED_QPS] >= 1 || seat.page.counters[M.CLASS] !== M.IDLE) return true;
      }
    }
    return false;
  }

  /** Tenants by device, as `isoverbs tenants` shows them. */
  tenants(): TenantRow[] {
    return [...this.devices.values()].flatMap((device) => {
      const byTenant = new Map<string, Seat[]>();
      for (const seat of device.seats) {
        if (seat !== undefined) byTenant.set(seat.tenant, [...(byTenant.get(seat.tenant) ?? []), seat]);
      }
      return [...byTenant].map(([tenant, seats]) => rowOf(device, tenant, seats));
    });
  }
}

function shareRules({ linkGbps, weights, ratesGbps }: Device): ShareRules {
  return { linkGbps, weights, ratesGbps };
}

/** Copies what the client says; whether it lives is told by its writing, in the daemon's own time. */
function read(seat: Seat, nowNs: number): void {
  const { page, theirs, client } = seat;
  page.counters.set(theirs.counters);
  const { class: declared } = client.identity;
  if (declared !== null && page.counters[M.CLASS] !== M.IDLE) {
    page.counters[M.CLASS] = CLASS_NAMES.indexOf(declared);
  }
  const [beat, seen] = [page.counters[M.BEAT], page.counters[M.SEEN_NS]];
  if (!Object.is(beat, seat.beat) || !Object.is(seen, seat.seen)) seat.aliveNs = nowNs;
  seat.beat = beat;
  seat.seen = seen;
  page.counters[M.SEEN_NS] = seat.aliveNs;
}

function write({ page, theirs }: Seat): void {
  theirs.grants.set(page.grants);
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
const finite = (value: number) => (value > 0 ? Math.min(value, MOST_SHOWN) : 0);

function rowOf(device: Device, tenant: string, seats: readonly Seat[]): TenantRow {
  const pages = seats.map(({ page }) => page);
  const most = (column: number) => Math.max(...pages.map(({ grants }) => grants[column]));
  const number = tenantNumber(tenant);
  const kind = Math.max(...pages.map(({ counters }) => finite(counters[M.CLASS])));
  const qps = (one: M.MemberPage) => Math.max(one.counters[M.ACTIVE_QPS], one.counters[M.RATED_QPS]);
  return {
    device: device.name,
    tenant,
    weight: device.weights.get(number) ?? 1,
    gbps: device.ratesGbps.get(number) ?? null,
    class: CLASS_NAMES[kind] ?? 'idle',
    why: REASONS[most(M.WHY)] ?? '',
    contexts: seats.length,
    processes: new Set(seats.map(({ client }) => client.pid)).size,
    qps: sum(pages.map((page) => finite(qps(page)))),
    wireGbps: sum(pages.map(({ counters }) => finite(counters[M.WIRE_GBPS]))),
    rateGbps: sum(pages.map(({ grants }) => grants[M.RATE_GBPS])),
    split: most(M.SPLIT) === 1,
    qNumAllow: most(M.QNUM_ALLOW),
  };
}
