/** The devices of a host as the daemon sees them: their seats, tenants and rulers. */
import type { AgentCoordinator } from '../coordinator/agent-host.ts';
import type { Coordinator } from '../coordinator/coordinator.ts';
import { parseRules } from '../coordinator/device-rules.ts';
import type { MemberPage } from '../coordinator/member-table.ts';
import type { Ruler } from '../coordinator/ruler.ts';
import type { NicFacts } from '../verbs/nic.ts';
import type { TenantGroups } from './groups.ts';
import type { Places } from './identity/places.ts';
import type { Pages } from './pages.ts';
import type { DeviceRow } from './protocol.ts';
import type { Identity } from './rules.ts';
import type { SeatTable } from './seat-table.ts';
import type { ShownSeat } from './tenant-rows.ts';
import type { TenantSettings } from './tenant-settings.ts';
import type { Account, Paid } from './tenants/accounts.ts';
import type { TenantRates } from './tenants/rates.ts';
import type { Total } from './tenants/totals.ts';

/** A context of a client at one device. */
export interface Seat extends ShownSeat {
  readonly client: Client;
  readonly seatNumber: number;
  readonly device: Device;
  readonly tenant: Tenant;
  /** The user that has the seat; undefined: a trusted one. */
  readonly owner: number | undefined;
  /** The tenant that the program named; '' if it named none. */
  readonly declaredTenant: string;
  readonly page: MemberPage;
  /** What the tenant's account already includes. */
  readonly paid: Paid;
  /** Groups that the program has created, with the weights that it last set. */
  readonly groups: Map<string, number>;
  /** Whether the client has received the labels of the context, so that it must hear of changes. */
  hasLabels: boolean;
}

/** A tenant with contexts at a device. */
export interface Tenant {
  readonly name: string;
  readonly seats: Set<Seat>;
  readonly total: Total;
  readonly account: Account;
  readonly groups: TenantGroups;
  readonly rates: TenantRates;
  /** As the rules or an operator have set them. */
  settings: TenantSettings;
}

/** A ruler that decides for the devices of a host, with its rules. */
export interface Ruling {
  readonly ruler: Ruler;
  readonly rules: unknown;
  /** The options of its policy, if its rules depend on the NIC of a device. */
  readonly options?: object;
  /** Whether it belongs to the daemon's policy, so that it has the last word on a tenant. Default false. */
  readonly isNamed?: boolean;
}

/** The rules of a ruling on a device. */
export function rulesOn({ ruler, rules, options }: Ruling, nic: NicFacts | null): unknown {
  return options === undefined || nic === null ? rules : parseRules(ruler, options, nic);
}

export interface Device {
  readonly name: string;
  readonly coordinator: Coordinator;
  /** The rules of each ruling here. */
  readonly rules: ReadonlyMap<Ruling, unknown>;
  /** By row of the member. */
  readonly seats: (Seat | undefined)[];
  readonly seatTable: SeatTable;
  /** The seats that each user has. */
  readonly places: Places;
  readonly tenants: Map<string, Tenant>;
  /** Whether each process has a clock of its own here, so that accounts would mean nothing. */
  readonly isSimulated: boolean;
  /** Tenants that have limits or rates. */
  readonly limitedTenants: Set<Tenant>;
  /** Tenants whose contexts came or went since the last pass, whose settings must be derived again. */
  readonly changedTenants: Set<Tenant>;
  /** Whether something has changed since the last pass. */
  isDirty: boolean;
  /** When all seats were last read. */
  fullReadNs: number;
  /** Members on behalf of other hosts: the notify callbacks, by row. */
  readonly guests: Map<number, () => void>;
}

/** A device as tools show it. */
export function deviceRowOf({ name, isSimulated, coordinator }: Device, nic: NicFacts | null): DeviceRow {
  return {
    device: name,
    linkGbps: coordinator.members.linkGbps,
    isVirtualTime: isSimulated,
    // Tables of measurements have no bound.
    nic: nic && { ...nic, chunks: null, tailNs: null },
  };
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

/** An agent's actions at its coordinator, except for looking up addresses. */
export type CoordinatorSide = Omit<AgentCoordinator, 'addressOf' | 'opened' | 'failed'>;

/** What agents do at the coordinator of a device. Changes take effect in the next pass, which `requestPass` requests. */
export function coordinatorSideOf(device: Device, requestPass: () => void): CoordinatorSide {
  const { coordinator, guests } = device;
  const mark = () => {
    device.isDirty = true;
    requestPass();
  };
  return {
    members: (ruler) => coordinator.membersOf(ruler),
    changed: (member) => {
      coordinator.markChanged(member);
      mark();
    },
    join: (tenant, granted) => {
      const page = coordinator.join(tenant === 0 ? '' : tenant);
      if (page !== null) guests.set(page.row, granted);
      return page;
    },
    leave: (page) => {
      guests.delete(page.row);
      coordinator.leave(page);
      mark();
    },
    decide: mark,
  };
}
